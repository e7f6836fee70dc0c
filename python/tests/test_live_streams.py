"""Live streams beside the black box: filtered, counted, readable while they grow."""

from __future__ import annotations

from conftest import Bench


def test_a_stream_holds_what_it_was_asked_for(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, json, os, time
        dashcam.start()
        with dashcam.stream("db.dashcam", kinds="span", names="db.*", min_duration="1ms") as stream:
            for i in range(50):
                with dashcam.span("db.slow", i=i): time.sleep(0.0015)
                with dashcam.span("db.fast"): pass
                with dashcam.span("web"): time.sleep(0.0015)
                dashcam.event("db.event")
            if os.fork() == 0:
                # Not the child's stream: nothing happens to it, and nothing hangs.
                stream.close()
                os._exit(0)
            os.wait()
            state = dashcam.status()["streams"]
            assert [s["sink"] for s in state] == ["db.dashcam"], state
        print(json.dumps(stream.counts()), stream.error())
        dashcam.stop()
    """)
    assert result.returncode == 0, result.stderr
    assert '"offered": 50' in result.stdout and '"read": 50' in result.stdout, result.stdout
    assert '"dropped": 0' in result.stdout and result.stdout.endswith("None\n"), result.stdout
    shown = bench.show("db.dashcam")
    assert shown["counts"]["spans"] == 50 and shown["counts"]["events"] == 0, shown["counts"]
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
