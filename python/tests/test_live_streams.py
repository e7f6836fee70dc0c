"""Live streams beside the black box: filtered, counted, readable while they grow."""

from __future__ import annotations

import json

from conftest import Bench


def test_a_stream_holds_what_it_was_asked_for(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, json, os, time
        dashcam.start()
        with dashcam.stream("db.dashcam", kinds="span", names="db.*", min_duration="1ms") as stream:
            maybe = 0
            for i in range(50):
                with dashcam.span("db.slow", i=i): time.sleep(0.0015)
                begin = time.monotonic_ns()
                with dashcam.span("db.fast"): pass
                # A thread that loses its CPU there is no fast one.
                maybe += time.monotonic_ns() - begin > 1_000_000
                with dashcam.span("web"): time.sleep(0.0015)
                dashcam.event("db.event")
            if os.fork() == 0:
                # Not the child's stream: nothing happens to it, and nothing hangs.
                stream.close()
                os._exit(0)
            os.wait()
            state = dashcam.status()["streams"]
            assert [s["sink"] for s in state] == ["db.dashcam"], state
        print(json.dumps([stream.counts(), stream.error(), maybe]))
        dashcam.stop()
    """)
    assert result.returncode == 0, result.stderr
    counts, error, maybe = json.loads(result.stdout)
    assert 50 <= counts["offered"] <= 50 + maybe and counts["read"] == counts["offered"], result.stdout
    assert counts["dropped"] == 0 and error is None, result.stdout
    shown = bench.show("db.dashcam")
    assert shown["counts"]["spans"] == counts["read"] and shown["counts"]["events"] == 0, shown["counts"]
    assert shown["damage"] == []


def test_wrong_streams_say_what_is_wanted(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        def refused(kind, *args, **settings):
            try:
                dashcam.stream(*args, **settings)
            except kind as error:
                print(error)
        refused(OSError, "early.dashcam")
        dashcam.start()
        refused(ValueError, "x.dashcam", kinds="spam")
        refused(ValueError, "x.dashcam", colour="red")
        refused(OSError, "/nowhere/x.dashcam")
        refused(OSError, "unix:/nowhere/socket")
        dashcam.stop()
    """)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "not recording" in lines[0]
    assert 'kinds: found "spam", wanted' in lines[1], lines[1]
    assert 'found "colour", wanted' in lines[2], lines[2]
    assert lines[3].startswith("/nowhere/x.dashcam: cannot stream there"), lines[3]
    assert lines[4].startswith("unix:/nowhere/socket: cannot stream there"), lines[4]
