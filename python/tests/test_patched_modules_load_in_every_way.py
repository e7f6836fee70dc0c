"""Modules that dashcam patches at import can be loaded in every other way, too."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest


def run(tmp_path: Path, *arguments: str, program: str = "") -> str:
    """A program's output under `dashcam run`; it must succeed."""
    command = [str(Path(sys.executable).with_name("dashcam")), "run", "--out", str(tmp_path / "captures"), "--",
               sys.executable, *arguments]
    if program:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(program))
        command.append(str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_patched_module_is_run_by_its_name(tmp_path: Path) -> None:
    assert "--bind" in run(tmp_path, "-m", "http.server", "--help")


def test_source_and_data_of_a_patched_module_are_read(tmp_path: Path) -> None:
    said = run(tmp_path, program="""
        import importlib.util, inspect
        spec = importlib.util.find_spec("http.server")
        code = spec.loader.get_code("http.server")
        source = spec.loader.get_source("http.server")
        print(code.co_filename == spec.origin, "class HTTPServer" in source, spec.loader.is_package("http.server"))
        import http.server
        print("class HTTPServer" in inspect.getsource(http.server), type(http.server.__loader__).__name__)
    """)
    assert said.split() == ["True", "True", "False", "True", "SourceFileLoader"]


def test_a_patched_module_is_imported_from_a_zip_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("flask/__init__.py", "")
        archive.writestr("flask/app.py", "class Flask:\n    pass\n")
        archive.writestr("__main__.py", "import flask.app; print(flask.app.Flask.__name__, flask.app.__file__)")
    said = run(tmp_path, str(tmp_path / "app.zip"))
    assert said.split() == ["Flask", str(tmp_path / "app.zip/flask/app.py")]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="3.15 asks no loader for load_module")
def test_a_host_s_own_old_loader_is_asked_as_before(tmp_path: Path) -> None:
    said = run(tmp_path, program="""
        import importlib.machinery, sys, types, warnings
        warnings.simplefilter("ignore")

        class Old:
            def load_module(self, name):
                module = sys.modules.setdefault(name, types.ModuleType(name))
                module.__path__ = []
                module.loaded_by = type(self).__name__
                return module

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name in ("flask", "flask.app"):
                    return importlib.machinery.ModuleSpec(name, Old())

        sys.meta_path.insert(1, Finder())
        import flask.app
        print(flask.app.loaded_by)
    """)
    assert said.split() == ["Old"]
