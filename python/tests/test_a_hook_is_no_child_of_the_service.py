"""The command that runs for each capture: a service that waits for any child does not meet it."""

from __future__ import annotations

from conftest import Bench

# Reports itself, runs until it may end, and ends with a code of its own.
HOOK = """\
    #!/bin/sh
    cat > verdict
    echo "$(pwd) $$" > hooked.new
    mv hooked.new hooked
    while [ ! -e go ]; do sleep 0.01; done
    exit 7
"""
PROGRAM = """
    import dashcam, os, pathlib, signal, sys, time

    signals = []
    signal.signal(signal.SIGCHLD, lambda *_: signals.append(os.getpid()))

    def children():
        try:
            return os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None

    def meets(condition):
        met = set()
        while not condition():
            met.add(children())
            time.sleep(0.001)
        met.add(children())
        return met

    dashcam.start(hook=HOOK)
    dashcam.snap("for the hook")
    met = meets(lambda: os.path.exists("hooked"))
    folder, number = pathlib.Path("hooked").read_text().split()
    assert os.path.samefile(folder, "."), folder
    shell = pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1]
    pathlib.Path("go").touch()
    # The hook, and the shell above it, which reports its end.
    met |= meets(lambda: not any(os.path.exists(f"/proc/{p}") for p in (number, shell)))
    assert met == {None}, met
    assert signals == [], signals
    own = os.spawnl(os.P_NOWAIT, "/bin/sh", "sh", "-c", "exit 3")
    assert os.wait() == (own, 3 << 8)
    assert len(signals) == 1, signals
    dashcam.stop()
    assert signals == [os.getpid()] and children() is None
    print("done")
"""


def test_no_wait_and_no_signal_of_the_service_is_for_it(bench: Bench) -> None:
    hook = bench.write("hook.sh", HOOK)
    hook.chmod(0o755)
    done = bench.python(PROGRAM.replace("HOOK", repr(str(hook))))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert f"dashcam: hook {hook}: ended with exit code 7, wanted 0" in done.stderr
    assert '"reason":"for the hook"' in (bench.folder / "verdict").read_text()


def test_what_cannot_be_executed_is_reported_and_nothing_is_left(bench: Bench) -> None:
    done = bench.python("""
        import dashcam, os
        dashcam.start(hook="/does/not/exist")
        dashcam.snap("for the hook")
        dashcam.snap("still works")
        dashcam.stop()
        try:
            print(os.wait())
        except ChildProcessError:
            print("no child")
    """)
    assert (done.returncode, done.stdout) == (0, "no child\n"), done.stderr
    assert "dashcam: hook /does/not/exist: ended with exit code 127, wanted 0" in done.stderr
    assert len(bench.captures()) == 2
