"""`import dashcam` loads only what every program needs: the rest comes with its first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dashcam

FOLDER = str(Path(dashcam.__file__).parent.parent)


def run(code: str) -> str:
    """What an interpreter prints that has imported `os`, as every one does, and no site-packages."""
    start = f"import os, sys; sys.path.append({FOLDER!r}); before = set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-S", "-E", "-c", start + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_loads_the_package_and_no_large_module() -> None:
    loaded = set(run("import dashcam; print(*(set(sys.modules) - before))").split())
    # A debug build looks up the codecs that calls name.
    debug = {"encodings.ascii"} if hasattr(sys, "gettotalrefcount") else set()
    assert {name for name in loaded if not name.startswith("dashcam")} <= {"__future__", "atexit", "gc"} | debug


def test_a_start_loads_nothing_that_reads_source_code(tmp_path: Path) -> None:
    code = f"import dashcam; dashcam.start(slow='60s', out={str(tmp_path)!r}); print(*(set(sys.modules) - before))"
    loaded = set(run(code).split())
    assert "dashcam._integrations" in loaded
    assert not loaded & {"inspect", "dis", "tokenize", "dataclasses"}, "0.6 MiB of each process"


def test_a_log_handler_is_one_of_loggings() -> None:
    code = """
from dashcam import LogHandler
assert 'logging' not in sys.modules
handler = LogHandler(30)
import logging
print(isinstance(handler, logging.Handler), issubclass(LogHandler, logging.Handler), handler.level)
"""
    assert run(code) == "True True 30"


def test_a_subclass_of_the_log_handler_is_one_of_loggings() -> None:
    code = """
from dashcam import LogHandler
assert 'logging' not in sys.modules
class Mine(LogHandler): pass
import logging
print(isinstance(Mine(level=20), logging.Handler), Mine.__mro__[-4:-1] == LogHandler.__mro__[:3])
"""
    assert run(code) == "True True"


def test_the_log_handler_is_complete_where_logging_is_there_already() -> None:
    code = "import logging; from dashcam import LogHandler; print(LogHandler.__bases__ == (logging.Handler,))"
    assert run(code) == "True"


def test_a_log_filter_is_one_of_loggings() -> None:
    code = """
from dashcam import LogFilter
assert 'logging' not in sys.modules
made = LogFilter()
import logging
print(isinstance(made, logging.Filter), issubclass(LogFilter, logging.Filter))
"""
    assert run(code) == "True True"
