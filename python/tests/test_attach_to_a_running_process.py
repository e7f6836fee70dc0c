"""`dashcam attach` starts the recorder in a process that runs already, and harms it never."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import DASHCAM, PATIENCE_S, Bench, wait_for

# Any process of the same user may trace it, where Yama would allow descendants only. It works until
# its standard input ends, then prints what it has seen.
HEAD = """
    import ctypes, http.server, os, signal, sys, threading, time
    ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
    def works(step=lambda: time.sleep(0.005)):
        print("ready", flush=True)
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        while not ended.is_set(): step()
"""


class Program:
    """A program that works."""

    def __init__(self, bench: Bench, code: str, *flags: str, **env: str) -> None:
        path = bench.write("works.py", textwrap.dedent(HEAD) + textwrap.dedent(code))
        self.process = subprocess.Popen(
            [sys.executable, *flags, str(path)], cwd=bench.folder, env=bench.environment(env), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        bench.running.append(self.process)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def ends(self) -> tuple[str, str]:
        """Its output, and stderr without the recorder's lines; it must end normally."""
        out, err = self.process.communicate("", timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        lines = [line for line in err.splitlines() if not line.startswith("dashcam: ")]
        return out, "\n".join(lines)


def state_of(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def reads(program: Program) -> None:
    """Waits until its only thread, which said so, sleeps in the read of its standard input."""
    wait_for("its read", lambda: state_of(program.pid) == "S")


def has_script(service: str) -> bool:
    """Whether a command that attaches under this name has written its script. Other tests attach
    meanwhile: their folders come and go."""
    for script in Path("/tmp").glob("dashcam-attach-*/script.py"):
        with contextlib.suppress(OSError):
            if service in script.read_text():
                return True
    return False


def test_a_running_program_is_recorded_from_then_on_and_again_after_a_detach(bench: Bench) -> None:
    program = Program(bench, """
        names = set(globals())
        works()
        print(sorted(set(globals()) - names), threading.active_count())
    """)
    for service in ("first", "second"):
        attached = bench.dashcam("attach", program.pid, "--slow", "1s", "--service", service, "--out", "here")
        assert (attached.returncode, attached.stderr) == (0, ""), attached
        assert attached.stdout.startswith(f"process {program.pid} is recorded (service {service}): captures go to "
                                          f"{bench.folder}/here; stopped for "), attached.stdout
        status = json.loads(bench.dashcam("status", program.pid, "--json").stdout)
        assert (status["on"], status["service"], status["settings"]["slow"]) == (True, service, "1s")
        again = bench.dashcam("attach", program.pid)
        assert again.returncode == 2 and "found recorded already" in again.stderr, again
        path = Path(bench.dashcam("snap", program.pid).stdout.strip())
        assert path.parent == bench.folder / "here" and path.exists()
        detached = bench.dashcam("detach", program.pid)
        assert (detached.returncode, detached.stderr) == (0, ""), detached
        gone = bench.dashcam("status", program.pid)
        assert gone.returncode == 1 and "not recorded" in gone.stderr, gone
    # No name in the program's own module, and no thread of `threading`.
    assert program.ends() == ("['names'] 1\n", "")


def test_the_search_path_is_left_alone_and_the_package_is_as_an_import_makes_it(bench: Bench) -> None:
    """The program cannot find dashcam itself, and watches its `sys.path`."""
    program = Program(bench, """
        import importlib.machinery
        folders = [folder for folder in sys.path if os.path.exists(os.path.join(folder, "dashcam"))]
        changes = []
        class Watched(list): pass
        for name in set(vars(list)) - set(dir(tuple)) | {"__setitem__", "__delitem__", "__iadd__", "__imul__"}:
            def change(self, *given, name=name):
                changes.append(name)
                return getattr(list, name)(self, *given)
            setattr(Watched, name, change)
        sys.path = Watched(folder for folder in sys.path if folder not in folders)
        changes.clear()  # of its own making
        watched, finders, hooks, before = sys.path, list(sys.meta_path), list(sys.path_hooks), list(sys.path)
        works()
        print(changes, sys.path is watched, list(watched) == before, sys.meta_path == finders, sys.path_hooks == hooks)
        import dashcam
        ordinary = importlib.machinery.PathFinder.find_spec("dashcam", folders)
        def found(spec):
            loader = type(spec.loader).__name__, spec.loader.name, spec.loader.path
            return loader, spec.origin, spec.cached, spec.submodule_search_locations, spec.has_location, spec.parent
        assert found(dashcam.__spec__) == found(ordinary), (found(dashcam.__spec__), found(ordinary))
        assert dashcam.__spec__.loader is dashcam.__loader__ and dashcam.__path__ == ordinary.submodule_search_locations
    """)
    attached = bench.dashcam("attach", program.pid, "--out", "here")
    assert (attached.returncode, attached.stderr) == (0, ""), attached
    assert program.ends() == ("[] True True True True\n", "")


def test_a_folder_that_cannot_have_captures_is_reported(bench: Bench) -> None:
    program = Program(bench, "works()")
    attached = bench.dashcam("attach", program.pid, "--out", str(bench.write("a_file", "") / "captures"))
    assert attached.returncode == 0, attached
    assert f"captures cannot be written: found {bench.folder}/a_file, which user" in attached.stderr, attached
    assert program.ends() == ("", "")


def test_a_request_is_recorded_in_a_module_that_was_imported_before(bench: Bench) -> None:
    """http.server's handlers are hooked in place, in a server that runs."""
    program = Program(bench, """
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
            def log_message(self, *args): pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        import urllib.request
        def asks():
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/price?sku=7").read()
            time.sleep(0.005)
        works(asks)
    """)
    assert bench.dashcam("attach", program.pid, "--out", "here").returncode == 0

    def some() -> bool:
        return bool(json.loads(bench.dashcam("status", program.pid, "--json").stdout)["requests"] >= 3)

    wait_for("requests", some)
    path = bench.dashcam("snap", program.pid).stdout.strip()
    assert "GET /price" in json.dumps(bench.show(Path(path)))
    assert program.ends() == ("", "")


def test_a_main_thread_that_runs_no_python_is_reported_and_the_request_withdrawn(bench: Bench) -> None:
    program = Program(bench, """
        print("ready", flush=True)
        sys.stdin.read()
        time.sleep(0.01)
        print([name for name in sys.modules if name.startswith("dashcam")])
    """)
    reads(program)
    for _ in range(2):  # what the first one left in the interpreter is no obstacle for the second
        late = bench.dashcam("attach", program.pid, "--wait", "200ms")
        assert late.returncode == 3, late
        assert "main thread: found blocked" in late.stderr and "nothing was changed" in late.stderr
    assert program.ends() == ("[]\n", "")


def test_a_waiting_request_is_taken_when_the_main_thread_comes_back(bench: Bench) -> None:
    program = Program(bench, """
        print("ready", flush=True)
        sys.stdin.readline()
        works()
    """)
    reads(program)
    assert bench.dashcam("attach", program.pid, "--wait", "200ms").returncode == 3
    service = f"late-{program.pid}"
    attaching = bench.start([DASHCAM, "attach", program.pid, "--wait", "60s", "--service", service])
    wait_for("the request", lambda: has_script(service))
    assert program.process.stdin is not None
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    out, err = attaching.communicate(timeout=PATIENCE_S)
    assert (attaching.returncode, err) == (0, ""), (out, err)
    assert program.ends() == ("ready\n", "")


def test_tasks_of_a_celery_worker_that_runs_already_are_requests(bench: Bench) -> None:
    pytest.importorskip("celery")
    result = bench.python("""
        from celery import Celery
        from celery.app.trace import build_tracer
        app = Celery("shop", broker="memory://", backend="cache+memory://")
        @app.task(name="shop.ship", ignore_result=True)
        def ship(count): return count + 1
        # What a worker does as it begins.
        ship.__trace__ = build_tracer(ship.name, ship, app=app)
        import dashcam
        dashcam.start(slow="10s")
        print(ship.__trace__("1", (41,), {}, {"id": "1"}).retval, dashcam.status()["requests"])
        print("celery shop.ship" in open(dashcam.snap(), "rb").read().decode("latin-1"))
    """)
    assert (result.returncode, result.stdout) == (0, "42 1\nTrue\n"), result


REFUSED = {
    "stopped": ("works()", {}, "process: found stopped by a signal, wanted running; `kill -CONT"),
    "off": ("works()", {"DASHCAM_ENABLED": "0"}, "DASHCAM_ENABLED in its environment: found 0"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_is_reported_before_anything_is_changed(bench: Bench, why: str) -> None:
    code, env, text = REFUSED[why]
    program = Program(bench, code, **env)
    if why == "stopped":
        os.kill(int(program.pid), signal.SIGSTOP)
        wait_for("the stop", lambda: state_of(program.pid) == "T")
    refused = bench.dashcam("attach", program.pid)
    assert refused.returncode == 2 and text in refused.stderr, refused
    if why == "stopped":
        assert state_of(program.pid) == "T"
        os.kill(int(program.pid), signal.SIGCONT)
    assert program.ends() == ("", "")


def test_wrong_flags_processes_that_are_none_and_other_programs_are_refused(bench: Bench) -> None:
    wrong = bench.dashcam("attach", str(os.getpid()), "--slow", "soon")
    assert wrong.returncode == 2 and "--slow: found" in wrong.stderr, wrong
    missing = bench.dashcam("attach", "4194304")
    assert missing.returncode == 1 and "found none of this number" in missing.stderr, missing
    other = bench.start(["sleep", "1000"])
    wait_for("sleep", lambda: "sleep" in Path(f"/proc/{other.pid}/comm").read_text())
    refused = bench.dashcam("attach", str(other.pid))
    # Where Yama lets descendants only be traced, that is the reason.
    expected = ("found no CPython in it", "kernel.yama.ptrace_scope")
    assert refused.returncode == 2 and any(text in refused.stderr for text in expected), refused


def test_whatever_goes_wrong_in_the_process_raises_nothing_there(bench: Bench) -> None:
    """The text cannot open the script, the recorder cannot start."""
    closed = Program(bench, """
        import builtins
        def refuses(*args, **kwargs): raise SystemExit("not this one")
        builtins.open = refuses
        works()
    """)
    late = bench.dashcam("attach", closed.pid, "--wait", "500ms")
    # From 3.14 on the interpreter opens the script itself, and the recorder's start fails.
    assert late.returncode == (3 if sys.version_info < (3, 14) else 2), late
    assert closed.ends() == ("", "")
    full = Program(bench, """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        works()
    """)
    refused = bench.dashcam("attach", full.pid)
    assert refused.returncode == 2 and "start of the recorder: found" in refused.stderr, refused
    assert full.ends() == ("", "")


def test_an_attacher_that_is_killed_leaves_the_program_running(bench: Bench) -> None:
    program = Program(bench, "works()")
    for _ in range(5):
        attacher = bench.start([DASHCAM, "attach", program.pid])
        attacher.kill()
        attacher.communicate(timeout=PATIENCE_S)
        wait_for("the program to run", lambda: state_of(program.pid) in "RS")
    bench.dashcam("attach", program.pid)  # or one of those above has started the recorder
    wait_for("a control socket", lambda: bench.dashcam("status", program.pid).returncode == 0)
    assert program.ends() == ("", "")


def test_the_environment_for_children_is_set_without_setenv(bench: Bench) -> None:
    result = bench.python("""
        import os, subprocess, sys
        os.environ["OWN"] = "kept"
        from dashcam import _attached
        _attached._set_environment({"GIVEN": "one", "PYTHONPATH": "/given"})
        assert (os.environ["GIVEN"], os.environ["PYTHONPATH"]) == ("one", "/given")
        os.environ["LATER"] = "own"
        del os.environ["PYTHONPATH"]
        asks = "import os; print([os.environ.get(n) for n in ('OWN', 'GIVEN', 'PYTHONPATH', 'LATER')])"
        print(subprocess.check_output([sys.executable, "-c", asks], text=True).strip())
    """)
    assert result.stdout == "['kept', 'one', None, 'own']\n", result.stderr
