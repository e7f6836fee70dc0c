"""SIGUSR2, limits on the number of captures, hooks, and captures at the end."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from conftest import PATIENCE_S, Bench, wait_for

WAITING = """
    import dashcam, signal, time
    {before}
    dashcam.start(slow="9s", {settings})
    with dashcam.request("job"):
        pass
    {after}
    print(dashcam.status()["sources"].get("signal"), flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        time.sleep(0.05)
"""


def waiting(bench: Bench, settings: str, before: str = "", after: str = ""):
    """A program that waits; and its report about the signal."""
    path = bench.write("program.py", WAITING.format(settings=settings, before=before, after=after))
    process = bench.start([sys.executable, str(path)])
    return process, process.stdout.readline().strip()


def reason(bench: Bench, path: Path) -> str:
    """The reason of a capture."""
    return str(bench.show(path)["meta"]["reason"])


def test_sigusr2_makes_a_capture_and_does_not_disturb(bench: Bench) -> None:
    process, state = waiting(bench, 'signal="USR2"')
    assert state == "on"
    process.send_signal(signal.SIGUSR2)
    captures = bench.wait_captures()
    assert [reason(bench, path) for path in captures] == ["signal: SIGUSR2"]
    assert process.poll() is None


@pytest.mark.parametrize("taken", ["signal.signal(signal.SIGUSR2, lambda *a: print('mine', flush=True))",
                                   "signal.signal(signal.SIGUSR2, signal.SIG_IGN)"])
def test_a_programs_own_handler_is_left_alone(bench: Bench, taken: str) -> None:
    process, state = waiting(bench, 'signal="USR2"', before=taken)
    assert state.startswith("off: the program has a handler of its own for SIGUSR2")
    process.send_signal(signal.SIGUSR2)
    if "mine" in taken:
        assert process.stdout.readline() == "mine\n"
    time.sleep(0.5)
    assert bench.captures() == [] and process.poll() is None


def test_a_handler_installed_later_wins_and_is_reported(bench: Bench) -> None:
    process, state = waiting(bench, 'signal="USR2"', after="""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    for _ in range(1200):
        if dashcam.status()["sources"]["signal"] != "on": break
        time.sleep(0.05)""")
    assert state.startswith("off: the program has a handler of its own"), state


def test_without_being_asked_for_the_signal_is_the_programs(bench: Bench) -> None:
    process, state = waiting(bench, "")
    assert state == "None"
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=PATIENCE_S) == -signal.SIGUSR2


BURST = """
    import dashcam, time
    dashcam.start(slow="5ms", post="1ms", cooldown="100ms", {settings})
    for i in range({count}):
        with dashcam.request("a" if i % 2 else "b"):
            time.sleep(0.012)
        time.sleep({pause})
    losses = dashcam.status()["losses"]
    print({{name: losses[name] for name in ("firings_repeated", "captures_over_quota")}})
    dashcam.stop()
"""


def burst(bench: Bench, settings: str, count: int = 40, pause: float = 0.05) -> dict[str, int]:
    """Slow requests of two names; the counters."""
    result = bench.python(BURST.format(settings=settings, count=count, pause=pause))
    assert result.returncode == 0, result.stderr
    counted: dict[str, int] = eval(result.stdout)
    return counted


def test_a_day_has_so_many_captures_and_the_others_are_counted(bench: Bench) -> None:
    counted = burst(bench, 'per_day=1, at_exit="never"')
    assert len(bench.captures()) == 1
    assert counted["captures_over_quota"] >= 1


def test_a_cause_is_captured_once_and_then_counted(bench: Bench) -> None:
    counted = burst(bench, 'repeat_after="1h", at_exit="never"', count=60)
    names = sorted(reason(bench, path).rsplit(": ", 1)[1] for path in bench.captures())
    assert names == ["a", "b"]
    assert counted["firings_repeated"] >= 20


def test_limits_fall_in_a_quiet_time_and_the_capture_says_so(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, time
        dashcam.start(slow="300ms", decay="1s", post="10ms", at_exit="never")
        end = time.monotonic() + 60
        while not dashcam.status()["captures"] and time.monotonic() < end:
            with dashcam.request("job"):
                time.sleep(0.03)
            time.sleep(0.02)
        print(dashcam.status()["settings"]["slow"])
        dashcam.stop()
    """)
    assert result.stdout == "300ms\n", result.stderr
    (capture,) = bench.captures()
    shown = bench.show(capture)["meta"]
    assert shown["reason"].startswith("slow: a request ") and "limits fell to" in shown["reason"]
    # It is judged by the limit that was in effect.
    assert bench.dashcam("why", str(capture)).returncode == 0
    assert shown["settings"]["slow"] != "300ms"


@pytest.mark.parametrize(("at_exit", "body", "expected"), [
    ("slow", "pass", None),
    ("always", "pass", "exit: recording ends"),
    ("crash", "pass", None),
    ("crash", "raise KeyError('x')", "crash: ended by an uncaught KeyError"),
    ("always", "raise KeyError('x')", "crash: ended by an uncaught KeyError"),
    ("slow", "raise KeyError('x')", None),
    ("crash", "raise SystemExit(3)", None),
])
def test_the_end_of_the_program(bench: Bench, at_exit: str, body: str, expected: str | None) -> None:
    bench.python(f"import dashcam\ndashcam.start(at_exit='{at_exit}')\n"
                 f"with dashcam.request('job'):\n    pass\n{body}")
    assert [reason(bench, path) for path in bench.captures()] == ([expected] if expected else [])


def test_a_hook_gets_the_path_and_no_shell_reads_its_words(bench: Bench) -> None:
    hook = bench.write("hook.sh", """\
        #!/bin/sh
        [ -n "$2" ] && [ -s "$2" ] && printf '%s\\n' "$1" "$2" "$DASHCAM_ENABLED" > hooked.new
        echo reported
        mv hooked.new hooked
    """)
    hook.chmod(0o755)
    result = bench.python(f"""
        import dashcam, os, time
        dashcam.start(hook="{hook} $HOME;touch")
        path = dashcam.snap("for the hook")
        print(path)
        for _ in range(3000):
            if os.path.exists("hooked"): break
            time.sleep(0.02)
        dashcam.stop()
    """)
    assert (bench.folder / "hooked").read_text().splitlines() == [
        "$HOME;touch", result.stdout.strip(), "off"], result.stderr
    assert "reported\n" in result.stderr


def test_each_capture_is_a_line_in_a_file_that_is_no_capture(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        dashcam.start(service="billy")
        print(dashcam.snap("odd"))
        dashcam.stop()
    """)
    log = bench.folder / "captures" / "billy.captures.log"
    fields = log.read_text().rstrip("\n").split("\t")
    assert fields[1:5] == [result.stdout.strip(), "odd", "-", "-"], fields
    os.utime(log, (4e9, 4e9))
    assert bench.show("captures")["meta"]["reason"] == "odd", "the newest capture, not the newest file"


def test_every_capture_runs_one_hook(bench: Bench) -> None:
    """A hook for each capture, one at a time: as many as captures, none left behind."""
    hook = bench.write("hook.sh", "#!/bin/sh\necho \"$1\" >> hooked\n")
    hook.chmod(0o755)
    burst(bench, f'hook="{hook}"', count=30)
    hooked = bench.folder / "hooked"
    # Paths have no spaces here: a half-written line is no path of a capture.
    wait_for("a hook for each capture", lambda: hooked.exists()
             and sorted(hooked.read_text().split()) == sorted(str(path) for path in bench.captures()))
    assert not [p for p in os.listdir(bench.folder) if p.endswith(".part")]
