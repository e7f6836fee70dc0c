"""A suite's source from a repository: the tag's tree, if the tag has the pinned commit."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import environment  # noqa: E402
from projects import Project  # noqa: E402


def _repository(folder: Path) -> str:
    """Makes a repository with the tag 1.0; returns its commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", "-c", "tag.gpgSign=false"]
    folder.mkdir()
    (folder / "tests").write_text("of 1.0")
    for words in ["init -q", "add tests", "commit -q --no-gpg-sign -m x", "tag -a -m x 1.0"]:
        subprocess.run([*git, *words.split()], check=True)
    ended = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return ended.stdout.strip()


def _row(repository: Path, commit: str) -> Project:
    return Project("x", "1.0", commit, keep=("tests",), run=("tests",), repository=repository.as_uri())


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "BUILD", tmp_path / "build")


def test_the_tree_of_the_tag_is_the_source(tmp_path: Path) -> None:
    row = _row(tmp_path / "r", _repository(tmp_path / "r"))
    with tarfile.open(environment._clone(row)) as packed:
        assert "source/tests" in packed.getnames()


def test_a_tag_with_another_commit_is_an_error(tmp_path: Path) -> None:
    row = _row(tmp_path / "r", _repository(tmp_path / "r"))
    with pytest.raises(environment.Failed, match="wanted " + "0" * 40):
        environment._clone(replace(row, sha256="0" * 40))
