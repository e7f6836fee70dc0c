"""Captures for other reasons than time: failed requests, their share, the program's predicate."""

from __future__ import annotations

import sys

import pytest
from conftest import DASHCAM, Bench, free_port, get, wait_for

FAILING = """
    import dashcam, time
    dashcam.start(slow="9s", post="10ms", cooldown="100ms", {settings})
    class ReadTimeout(Exception): pass
    def job(name, error=None):
        try:
            with dashcam.request(name):
                if error is not None:
                    raise error
        except Exception:
            pass
    while dashcam.status()["sampler"]["passes"] < 2: time.sleep(0.01)
    {body}
    end = time.monotonic() + {patience}
    while not dashcam.status()["captures"] and time.monotonic() < end: time.sleep(0.01)
    time.sleep(0.2)  # for one too many
    print(dashcam.status()["losses"])
    dashcam.stop()
"""


def reasons(bench: Bench, settings: str, body: str, some: bool) -> list[str]:
    """The reasons of a program's captures; whether captures are expected."""
    patience = 60 if some else 0.3
    result = bench.python(FAILING.format(settings=settings, body=body, patience=patience))
    assert result.returncode == 0, result.stderr
    return [bench.show(path)["meta"]["reason"] for path in bench.captures()]


@pytest.mark.parametrize(("rule", "reason"), [
    ("error", "error: ReadTimeout in checkout"),
    ("ReadTimeout", "error: ReadTimeout in checkout"),
    ("*Timeout*(check*)", "error: ReadTimeout in checkout"),
    ("Timeout", None),
    ("ReadTimeout(search)", None),
    ("ValueError, KeyError", None),
    ("", None),
])
def test_an_exception_by_its_type_and_its_request(bench: Bench, rule: str, reason: str | None) -> None:
    body = "job('search'); job('checkout', ReadTimeout())"
    assert reasons(bench, f'on_error="{rule}"', body, bool(reason)) == ([reason] if reason else [])


def test_a_share_of_errors_over_its_limit(bench: Bench) -> None:
    body = """
    for i in range(100): job('checkout', ValueError() if i % 20 == 19 else None)
    time.sleep(0.1)
    job('search', ValueError())
    job('checkout', ValueError())"""
    # 1 of 20 to 5 of 100 are not more than 5 %; 6 of 101 are.
    found = reasons(bench, 'on_error="errors(checkout)>5%/30s"', body, True)
    assert found == ["errors: 6 of 101 requests failed: errors(checkout)>5%/30s"]


def test_no_share_without_errors(bench: Bench) -> None:
    body = "for i in range(200): job('checkout')"
    assert reasons(bench, 'on_error="errors>1%/30s"', body, False) == []


def test_a_predicate_chooses(bench: Bench) -> None:
    body = "[job('search') for _ in range(50)]; job('checkout', ValueError())"
    settings = "when=lambda name, seconds, error: error and name == 'checkout' and seconds < 5"
    found = reasons(bench, settings, body, True)
    assert len(found) == 1 and found[0].startswith("when: chosen by the program after "), found
    assert found[0].endswith(": checkout")


def test_a_predicate_that_fails_is_asked_ten_times_and_no_more(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        asked = []
        def when(name, seconds, error):
            asked.append(name)
            with dashcam.request("inside"):  # is not asked about
                pass
            return asked[5000]
        dashcam.start(slow="9s", when=when)
        for i in range(100):
            with dashcam.request("job"):
                pass
        state = dashcam.status()
        print(len(asked), set(asked), state["losses"]["predicate_failed"])
        print(state["sources"]["when"])
        dashcam.stop()
    """)
    assert result.returncode == 0, result.stderr
    asked, state = result.stdout.splitlines()
    assert asked == "10 {'job'} 10"
    assert state == "off: failed 10 times, the last time: IndexError: list index out of range"
    assert result.stderr.count("dashcam: when: off: failed 10 times") == 1


def test_a_predicate_that_cannot_be_called_is_refused(bench: Bench) -> None:
    result = bench.python("import dashcam\ndashcam.start(when='slow')")
    assert "ValueError: when: found 'slow', wanted a callable" in result.stderr


def test_a_program_under_dashcam_run_gives_its_predicate_by_start(bench: Bench) -> None:
    bench.write("program.py", """
        import dashcam, sys, time
        dashcam.start(when=lambda name, seconds, error: name == "chosen")
        dashcam.start(when=lambda name, seconds, error: True)  # too late: one is asked already
        for name in ("passed by", "chosen"):
            with dashcam.request(name):
                pass
        time.sleep(1)
    """)
    words = [DASHCAM, "run", "--slow", "9s", "--post", "10ms", "--", sys.executable, "program.py"]
    bench.start(words)
    made = bench.wait_captures()
    assert bench.show(made[0])["meta"]["reason"].endswith("chosen"), bench.show(made[0])["meta"]


def test_an_exception_that_flask_makes_a_reply_of(bench: Bench) -> None:
    bench.write("program.py", """
        import os
        from flask import Flask
        app = Flask(__name__)
        @app.get("/fine")
        def fine(): return "fine"
        @app.get("/item/<key>")
        def item(key): return {}[key]
        @app.get("/down")
        def down(): return "down", 503
        app.run("127.0.0.1", int(os.environ["PORT"]))
    """)
    port = free_port()
    words = [DASHCAM, "run", "--on-error", "KeyError, error(/down)", "--post", "10ms",
             "--cooldown", "100ms", "--", sys.executable, "program.py"]
    service = bench.start(words, PORT=str(port))
    assert get(port, "/fine") == "fine" and get(port, "/item/a") == "500"
    first = bench.wait_captures()
    assert bench.show(first[0])["meta"]["reason"] == "error: KeyError in GET /item/<key>"
    first[0].unlink()
    assert get(port, "/down") == "503"
    # The cooldown after the first capture may suppress it: repeated until the cooldown is over.
    second = wait_for("a second capture", lambda: (get(port, "/down"), bench.wait_captures(0.5))[1])
    assert bench.show(second[0])["meta"]["reason"] == "error: an error in GET /down"
    bench.stop(service)


def test_wrong_rules_are_refused_before_the_program_starts(bench: Bench) -> None:
    result = bench.dashcam("run", "--on-error", "error>5", "--", sys.executable, "-c", "print(1)")
    assert result.returncode == 2 and "--on-error: found \"error>5\", wanted error" in result.stderr
