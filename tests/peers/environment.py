"""Where a project's suite runs: its pinned source with the tests, and an environment with the same
version installed, the tests' requirements, and dashcam's wheel.

How it works: the source distribution comes from the registry by pip and is compared with the pinned
SHA-256; the parts that the row keeps are unpacked. A project that distributes no tests has a
repository in its row: git fetches the version's tag, whose commit is pinned. All of it lies under build/peers, and is made
anew only when the row, the interpreter or the wheel changes. The package itself is installed, never
imported from the source: tests run against what users have.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from projects import Project

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "peers"
_CONSTRAINTS = Path(__file__).with_name("constraints.txt")
_REPORT = Path(__file__).with_name("peers_report.py")
_FETCH_SECONDS = "900"


class Failed(Exception):
    """A suite could not be run: the thing, what was found, what was wanted."""


class Skipped(Exception):
    """This machine lacks what a suite needs."""


@dataclass(frozen=True)
class Place:
    """A suite that is ready to run."""

    source: Path
    python: Path
    dashcam: Path


def prepare(project: Project, python: str, wheel: Path) -> Place:
    """Downloads and installs what is missing. Raises Failed or Skipped."""
    home = BUILD / python / project.name
    home.mkdir(parents=True, exist_ok=True)
    source, venv = home / "source", home / "venv"
    _unpack(project, python, source)
    _install(project, python, wheel, venv)
    return Place(source, venv / "bin" / "python", venv / "bin" / "dashcam")


def interpreter(version: str) -> str:
    """The path of an interpreter, as tools/pythons finds it. Raises Failed."""
    found = subprocess.run([sys.executable, str(ROOT / "tools" / "pythons"), version], capture_output=True, text=True)
    if found.returncode != 0:
        raise Failed(f"Python {version}: not found; wanted CPython with venv, on PATH or by pyenv")
    return found.stdout.split()[1]


def _unpack(project: Project, python: str, source: Path) -> None:
    if project.version is None:
        code = "import test.test_threading"
        if subprocess.run([interpreter(python), "-c", code], capture_output=True).returncode != 0:
            raise Skipped(f"Python {python} comes without its tests here")  # Debian's
        source.mkdir(exist_ok=True)
        return
    mark = json.dumps([project.version, project.sha256, project.keep])
    stamp = source / ".peers"
    if stamp.exists() and stamp.read_text() == mark:
        return
    archive = _clone(project) if project.repository else _fetch(project, python)
    shutil.rmtree(source, ignore_errors=True)
    fresh = source.with_suffix(".unpacking")
    shutil.rmtree(fresh, ignore_errors=True)
    with (zipfile.ZipFile if archive.suffix == ".zip" else tarfile.open)(archive) as packed:
        packed.extractall(fresh)
    (top,) = fresh.iterdir()
    for name in project.keep:
        if not (top / name).exists():
            raise Failed(f"{project.name}: no {name} in {archive.name}; see `keep` in its row")
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).rename(source / name)
    shutil.rmtree(fresh)
    stamp.write_text(mark)


def _fetch(project: Project, python: str) -> Path:
    name = project.registry_name()
    folder = BUILD / "sdists" / f"{name}-{project.version}"
    if not list(folder.glob("*")):
        folder.mkdir(parents=True, exist_ok=True)
        words = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
        _again([interpreter(python), *words, "--dest", str(folder), f"{name}=={project.version}"])
    (archive,) = folder.glob("*")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != project.sha256:
        raise Failed(f"{archive.name}: found SHA-256 {found}, wanted {project.sha256}; see tests/peers/projects.py")
    return archive


def _clone(project: Project) -> Path:
    """The tagged tree of a repository, as an archive with one folder on top."""
    folder = BUILD / "sdists" / f"{project.registry_name()}-{project.version}-git"
    archive = folder / f"{project.sha256}.tar"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    _again([*git, "fetch", "--quiet", "--depth=1", project.repository, f"refs/tags/{project.version}"])
    words = [*git, "rev-parse", "FETCH_HEAD^{commit}"]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    if found != project.sha256:
        raise Failed(f"{project.repository}: found commit {found}, wanted {project.sha256}; see tests/peers/projects.py")
    subprocess.run([*git, "archive", "--prefix=source/", f"--output={archive}", found], check=True)
    return archive


def _install(project: Project, python: str, wheel: Path, venv: Path) -> None:
    wanted = [f"{project.registry_name()}{project.extras}=={project.version}"] if project.version else []
    wanted += project.requires
    ours = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, _REPORT)]
    mark, stamp = json.dumps([wanted, _CONSTRAINTS.read_text(), ours]), venv / "peers.stamp"
    if stamp.exists() and stamp.read_text() == mark:
        return
    inside = venv / "bin" / "python"
    if not inside.exists():
        subprocess.run([interpreter(python), "-m", "venv", str(venv)], check=True)
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if wanted:
        _again([*pip, "--constraint", str(_CONSTRAINTS), *wanted])
    _again([*pip, "--no-deps", "--force-reinstall", str(wheel)])
    (site,) = venv.glob("lib/python3.*/site-packages")
    shutil.copy(_REPORT, site)
    stamp.write_text(mark)


def _again(words: Sequence[str]) -> None:
    ended = subprocess.run([str(ROOT / "tools" / "again"), _FETCH_SECONDS, *words])
    if ended.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit {ended.returncode}")
