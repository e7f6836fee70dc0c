"""A launcher that becomes the program by exec, as opentelemetry-instrument, ddtrace-run and newrelic-admin
do: the program is recorded under its own name, and what the launcher put into it still runs."""

from __future__ import annotations

import sys

import pytest

from conftest import Bench

LAUNCHER = """
import os, sys
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "theirs")
os.environ["PYTHONPATH"] = folder + os.pathsep + os.environ["PYTHONPATH"]
words = [sys.executable, sys.argv[1]]
{become}
"""
PROGRAM = """
import os, sys
import dashcam
status = dashcam.status()
print(status["on"], status.get("service"), os.environ.get("LAUNCHED"), os.environ["DASHCAM_ROOT_PID"] == str(os.getpid()))
"""


@pytest.mark.parametrize("become", [
    "os.execvp(words[0], words)",
    "os.execl(words[0], *words)",
    "os.execve(words[0], words, dict(os.environ))",
    "os.execvpe(words[0], words, env=os.environ)",
])
def test_the_program_is_recorded_and_the_launchers_module_runs(bench: Bench, become: str) -> None:
    (bench.folder / "theirs").mkdir()
    bench.write("theirs/sitecustomize.py", "import os; os.environ['LAUNCHED'] = 'yes'")
    launcher = bench.write("launcher.py", LAUNCHER.format(become=become))
    program = bench.write("shop.py", PROGRAM)
    result = bench.dashcam("run", "--", sys.executable, str(launcher), str(program))
    assert (result.returncode, result.stdout) == (0, "True shop yes True\n"), result.stderr


def test_a_cleaned_environment_stays_clean(bench: Bench) -> None:
    launcher = bench.write("launcher.py", """
        import os, sys
        os.execve(sys.executable, [sys.executable, sys.argv[1]], {"PATH": os.environ["PATH"]})
    """)
    program = bench.write("shop.py", "import os; print(os.environ.get('PYTHONPATH'))")
    result = bench.dashcam("run", "--", sys.executable, str(launcher), str(program))
    assert (result.returncode, result.stdout) == (0, "None\n"), result.stderr


FAILING = """
import os, traceback, types
for become, words in ((os.execv, ()), (os.execve, ({"A": "b"},))):
    try:
        become("/nowhere/nothing", ["nothing"], *words)
    except OSError as error:
        print(type(become) is types.BuiltinFunctionType, len(traceback.extract_tb(error.__traceback__)))
try:
    os.execve("/nowhere/nothing", ["nothing"], env=None)
except TypeError as error:
    print(len(traceback.extract_tb(error.__traceback__)))
"""


def test_an_exec_that_fails_does_so_as_without_us(bench: Bench) -> None:
    program = bench.write("failing.py", FAILING)
    result = bench.dashcam("run", "--", sys.executable, str(program))
    assert (result.returncode, result.stdout) == (0, "True 1\nTrue 1\n1\n"), result.stderr
