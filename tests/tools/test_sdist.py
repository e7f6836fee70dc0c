"""tools/sdist.py: the source archive holds all that its build reads, and its backend is Maturin's plus cargo."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import sdist  # noqa: E402


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked elsewhere."""
    folder = tmp_path_factory.mktemp("sdist")
    archive = sdist.make(folder)
    assert re.fullmatch(r"dashcam-[0-9][^-]*\.tar\.gz", archive.name)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_cargo_finds_the_binding_the_command_and_the_reader(unpacked: Path) -> None:
    found = subprocess.run(["cargo", "metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"],
                           cwd=unpacked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 0, found.stderr
    assert all(f'"name":"{name}"' in found.stdout for name in ("dashcam-python", "dashcam-cli", "dashcam-reader"))


def test_files_that_the_sources_include_are_there(unpacked: Path) -> None:
    included = {
        (source.parent / name).resolve()
        for source in unpacked.glob("crates/*/src/**/*.rs")
        for name in re.findall(r"include_(?:str|bytes)!\(\"([^\"]+)\"\)", source.read_text("utf-8"))
    }
    assert unpacked / "viewer/dist/page.html" in included, "what this test is for"
    assert [path for path in included if not path.exists()] == []


def test_the_backend_is_named_and_the_metadata_is_whole(unpacked: Path) -> None:
    project = (unpacked / "pyproject.toml").read_text("utf-8")
    assert 'build-backend = "backend"' in project and "maturin" in project
    assert (unpacked / "tools/source_build/backend.py").is_file()
    info = (unpacked / "PKG-INFO").read_text("utf-8")
    assert "\nName: dashcam\n" in info and "\nProvides-Extra: sql\n" in info
    assert "The black box of a running service" in info, "the long description"
    assert (unpacked / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert not (unpacked / "python/tests").exists()
