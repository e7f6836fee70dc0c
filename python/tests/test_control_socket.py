"""`dashcam ps`, `status`, `snap` and `set`: another shell asks the processes of its own user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import limited
from conftest import BIN, DASHCAM, PATIENCE_S, Bench, free_port, get, wait_for

WORKER = """
    import dashcam, sys, time
    dashcam.start(service="billy", slow="10s", memory="8MiB")
    with dashcam.request("GET /checkout"):
        pass
    print("up", flush=True)
    while True:
        with dashcam.request("GET /checkout"):
            time.sleep(0.05)
"""
FLASK = """
    import os
    from flask import Flask
    app = Flask(__name__)
    @app.get("/pid")
    def pid(): return str(os.getpid())
"""


def runtime(bench: Bench) -> str:
    """A runtime directory of the test's own: other tests' processes are not seen."""
    folder = bench.folder / "run"
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


def processes(bench: Bench) -> dict[int, dict[str, Any]]:
    """What `dashcam ps --json` lists in the test's own folder."""
    result = bench.dashcam("ps", "--json", XDG_RUNTIME_DIR=runtime(bench))
    rows = json.loads(result.stdout)["processes"]
    own = {int(path.name.split(".")[0]) for path in Path(runtime(bench), "dashcam").glob("*.sock")}
    return {row["pid"]: row for row in rows if row["pid"] in own}


def started(bench: Bench, code: str = WORKER) -> subprocess.Popen[str]:
    """A recorded process that has reported its start."""
    path = bench.write("worker.py", code)
    process = bench.start([sys.executable, str(path)], XDG_RUNTIME_DIR=runtime(bench))
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    return process


def test_another_shell_sees_asks_and_saves(bench: Bench) -> None:
    process = started(bench)
    env = {"XDG_RUNTIME_DIR": runtime(bench)}
    row = processes(bench)[process.pid]
    assert row["service"] == "billy" and row["on"] is True and row["requests"] > 0
    table = bench.dashcam("ps", **env).stdout.splitlines()
    assert table[0].split() == ["PID", "SERVICE", "SINCE", "STATE", "REQUESTS", "SLOW",
                                "CAPTURES", "VERDICT", "BOX"]
    assert any(line.split()[:2] == [str(process.pid), "billy"] for line in table[1:])

    status = bench.dashcam("status", str(process.pid), "--json", **env)
    assert json.loads(status.stdout)["pid"] == process.pid
    text = bench.dashcam("status", str(process.pid), **env).stdout
    assert text.startswith(f"billy, process {process.pid}: recording\n"), text
    assert "control" in next(line for line in text.splitlines() if line.startswith("  sources on   ")), text
    settings = next(line for line in text.splitlines() if line.startswith("  settings     "))
    assert "memory=8MiB" in settings and "cooldown" not in settings, "as `set` takes them, without defaults"

    snap = bench.dashcam("snap", "billy", "looked odd", **env)
    assert snap.returncode == 0, snap.stderr
    assert snap.stderr == f"dashcam: billy, process {process.pid}: saved a capture\n"
    capture = Path(snap.stdout.rstrip("\n"))
    assert bench.show(capture)["meta"]["reason"] == "looked odd"
    assert processes(bench)[process.pid]["captures"] == 1


def test_a_process_that_gets_no_processor_is_waited_for(bench: Bench) -> None:
    process = started(bench)
    command = bench.start([DASHCAM, "snap", "billy"], XDG_RUNTIME_DIR=runtime(bench))
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.5)  # It passes without, too.
    # Ctrl-Z and `fg`: a wait with a time limit is interrupted.
    os.kill(command.pid, signal.SIGSTOP)
    os.kill(command.pid, signal.SIGCONT)
    os.kill(process.pid, signal.SIGCONT)
    out, err = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, err) == (0, f"dashcam: billy, process {process.pid}: saved a capture\n"), out


def test_settings_change_in_the_running_process(bench: Bench) -> None:
    process = started(bench)
    env = {"XDG_RUNTIME_DIR": runtime(bench)}
    changed = bench.dashcam("set", str(process.pid), "slow=20ms", "post=10ms", **env)
    assert changed.returncode == 0 and changed.stdout == "", changed
    assert changed.stderr == f"dashcam: billy, process {process.pid}: set slow=20ms post=10ms\n"
    captures = bench.wait_captures()
    assert captures and bench.show(captures[0])["meta"]["settings"]["slow"] == "20ms"

    off = bench.dashcam("set", "billy", "off", **env)
    assert off.stderr == f"dashcam: billy, process {process.pid}: set enabled=off\n"
    before = processes(bench)[process.pid]
    assert before["on"] is False
    time.sleep(0.3)
    assert processes(bench)[process.pid]["requests"] == before["requests"]
    assert bench.dashcam("set", str(process.pid), "on", "slow=10s", **env).returncode == 0
    wait_for("more requests", lambda: processes(bench)[process.pid]["requests"] > before["requests"])

    for wrong, reported in [("slow=soon", "slow: found \"soon\", wanted a limit like 500ms"),
                        ("slo=1s", "slo: found no setting of this name, wanted one of enabled"),
                        ("memory=1GiB", "found a setting that needs a restart, wanted one of enabled"),
                        ("louder", "wanted name=value (like slow=250ms), on or off")]:
        refused = bench.dashcam("set", str(process.pid), wrong, **env)
        assert refused.returncode == 2 and reported in refused.stderr, refused.stderr


def test_a_child_has_its_own_socket_and_a_dead_ones_is_tidied(bench: Bench) -> None:
    process = started(bench, """
        import dashcam, os, time
        dashcam.start(service="billy", memory="8MiB")
        child = os.fork()
        with dashcam.request("job"):
            pass
        if child:
            print("up", flush=True)
        time.sleep(60)
    """)
    env = {"XDG_RUNTIME_DIR": runtime(bench)}
    found = wait_for("two processes", lambda: (p := processes(bench)) and len(p) == 2 and p)
    assert process.pid in found, found
    (child,) = set(found) - {process.pid}
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert set(processes(bench)) == {child}
    # Nothing of the parent's remains, and the child still answers.
    assert [p.name for p in Path(runtime(bench), "dashcam").iterdir()] == [f"{child}.sock"]
    assert bench.dashcam("status", str(child), **env).returncode == 0
    gone = bench.dashcam("snap", str(process.pid), **env)
    assert gone.returncode == 1 and "no such process" in gone.stderr, gone.stderr
    os.kill(child, signal.SIGTERM)


def test_exec_gives_the_number_to_the_next_program(bench: Bench) -> None:
    bench.write("second.py", WORKER.replace("billy", "second"))
    process = started(bench, """
        import dashcam, os, sys
        dashcam.start(service="first", memory="8MiB")
        os.execv(sys.executable, [sys.executable, "second.py"])
    """)
    assert processes(bench)[process.pid]["service"] == "second"


def test_both_workers_of_gunicorn_are_listed(bench: Bench) -> None:
    bench.write("program.py", FLASK)
    port = free_port()
    words = [DASHCAM, "run", "--service", "shop", "--", str(BIN / "gunicorn"), "-w", "2",
             "--graceful-timeout", "30", "-b", f"127.0.0.1:{port}", "program:app"]
    service = bench.start(words, XDG_RUNTIME_DIR=runtime(bench))
    served = int(get(port, "/pid"))
    found = wait_for("master and workers", lambda: (p := processes(bench)) and len(p) == 3 and p)
    assert {row["service"] for row in found.values()} == {"shop"}, found
    assert service.pid in found and served in found
    bench.stop(service)
    assert not list(Path(runtime(bench), "dashcam").iterdir())


def test_an_unrecorded_program_differs_from_a_missing_one(bench: Bench) -> None:
    env = {"XDG_RUNTIME_DIR": runtime(bench)}
    here = bench.dashcam("status", str(os.getpid()), **env)
    assert here.returncode == 1 and "is not recorded" in here.stderr
    silent = bench.dashcam("status", "0", **env)
    assert silent.returncode == 1 and "no such process" in silent.stderr
    unknown = bench.dashcam("status", "x", **env)
    assert unknown.returncode == 1 and "no process of this user is recorded as this service" in unknown.stderr


def test_a_folder_that_is_a_link_is_refused_and_the_service_runs_on(bench: Bench) -> None:
    (bench.folder / "elsewhere").mkdir(mode=0o700)
    Path(runtime(bench), "dashcam").symlink_to(bench.folder / "elsewhere")
    result = bench.python("""
        import dashcam
        dashcam.start(memory="8MiB")
        with dashcam.request("job"):
            pass
        print(dashcam.status()["sources"]["control"])
        print(dashcam.snap("still works").exists())
    """, XDG_RUNTIME_DIR=runtime(bench))
    state, works = result.stdout.splitlines()
    assert state.startswith("off: ") and "found a symbolic link of user" in state
    assert works == "True" and not list((bench.folder / "elsewhere").iterdir())
    doctor = bench.dashcam("doctor", XDG_RUNTIME_DIR=runtime(bench))
    assert "off  control: " in doctor.stdout


def test_turned_off_there_is_no_socket(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, os
        dashcam.start(memory="8MiB", control=False)
        print(dashcam.status()["sources"]["control"])
        def name(thread):
            try: return open(f"/proc/self/task/{thread}/comm").read()
            except OSError: return "it has ended"
        print([n for n in os.listdir("/proc/self/task") if name(n) == "dashcam-control\\n"])
    """, XDG_RUNTIME_DIR=runtime(bench))
    assert result.stdout.splitlines() == ["off: turned off by settings", "[]"], result.stderr
    assert not Path(runtime(bench), "dashcam").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_turned_away_even_where_the_folder_lets_it_in(bench: Bench) -> None:
    # Not below the test's own folder, which keeps others out.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o700)
        _another_user_is_turned_away(bench, folder)


def _another_user_is_turned_away(bench: Bench, folder: str) -> None:
    path = bench.write("worker.py", WORKER)
    process = bench.start([sys.executable, str(path)], XDG_RUNTIME_DIR=folder)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    path = Path(folder, "dashcam", f"{process.pid}.sock")
    for part in [path, path.parent, path.parent.parent]:
        part.chmod(0o777)

    def become() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    # Refused before it has sent its request, so that writing may fail.
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "try: s.sendall(b'snap\\n')\nexcept BrokenPipeError: pass\n"
            "print(s.recv(1000).decode())")
    other = limited.run(["/usr/bin/env", "python3", "-c", code, str(path)], PATIENCE_S,
                        preexec_fn=become, capture_output=True, text=True, cwd="/",
                        env={"PATH": "/usr/bin:/bin"})
    assert "found another user" in other.stdout, other
    status = bench.dashcam("status", str(process.pid), "--json", XDG_RUNTIME_DIR=folder)
    assert json.loads(status.stdout)["losses"]["control_refused"] == 1
    assert not bench.captures()
