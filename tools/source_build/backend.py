"""The build backend of dashcam's source archive (PEP 517): what `pip install dashcam-VERSION.tar.gz` runs.

How it works: the command and the reader for Python are built by cargo and put where Maturin packs them
from; the rest is Maturin's, in the folder python/. `DASHCAM_PROFILE` names another profile of cargo's
than `release`. What it needs: cargo, and a linker. Missing on purpose: wheels for other machines than
this one, which `make wheels` builds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator

import maturin

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
SCRIPTS = PYTHON / "dashcam.data" / "scripts"


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None,
                metadata_directory: str | None = None) -> str:
    """Builds the wheel for the interpreter that runs this; returns its name."""
    profile = os.environ.get("DASHCAM_PROFILE", "release")
    arguments = os.environ.get("MATURIN_PEP517_ARGS") or f"--profile {profile}"
    os.environ["MATURIN_PEP517_ARGS"] = arguments
    # Without the tables that a debugger reads: three quarters of the files.
    os.environ.setdefault(f"CARGO_PROFILE_{profile.upper()}_STRIP", "debuginfo")
    native(profile)
    wheel_directory = os.path.abspath(wheel_directory)
    metadata_directory = metadata_directory and os.path.abspath(metadata_directory)
    with inside(PYTHON):
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Writes the wheel's metadata; returns the name of the folder."""
    metadata_directory = os.path.abspath(metadata_directory)
    SCRIPTS.mkdir(parents=True, exist_ok=True)  # Maturin wants it for the metadata, too.
    with inside(PYTHON):
        return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing beyond what pyproject.toml names: cargo is not a package of Python's."""
    return []


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Refused: the archive is made from a checkout, by tools/sdist.py."""
    raise SystemExit("dashcam: an archive from an archive: wanted a checkout; there, python3 tools/sdist.py FOLDER")


def native(profile: str) -> None:
    """Builds the command and the reader, and puts them where Maturin packs them from."""
    if shutil.which("cargo") is None:
        raise SystemExit("dashcam: found no cargo, which builds it; wanted Rust 1.85 or newer: https://rustup.rs, "
                         "or a wheel for this machine")
    packages = ["-p", "dashcam-cli", "-p", "dashcam-reader", "--features", "dashcam-reader/abi3"]
    subprocess.run(["cargo", "build", "--locked", "--profile", profile, *packages], cwd=ROOT, check=True)
    about = subprocess.run(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"],
                           cwd=ROOT, check=True, stdout=subprocess.PIPE)
    built = Path(json.loads(about.stdout)["target_directory"]) / ("debug" if profile == "dev" else profile)
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy(built / "dashcam", SCRIPTS / "dashcam")
    shutil.copy(built / "lib_reader.so", PYTHON / "dashcam" / "_reader.abi3.so")


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Maturin builds what is in the current folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
