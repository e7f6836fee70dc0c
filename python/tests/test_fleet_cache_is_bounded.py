"""The cache of tables has a bound; what is in use is not removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ibis")

from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.tables import cache  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402



@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def filled(source: Path, used: int, size: int = 1000) -> Path:
    """The tables of a source, so large, used at this second."""
    path = cache.folder(source, False)
    (path / "captures").mkdir(parents=True)
    (path / "captures" / "file").write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def sizes(*folders: Path) -> int:
    """Bytes of folders, as the cache counts them."""
    return sum(cache._size(folder) for folder in folders)


def test_the_folder_that_was_unused_for_the_longest_time_goes_first(home: Path) -> None:
    new, old, middle = (filled(home / name, used) for name, used in (("new", 30), ("old", 10), ("middle", 20)))
    assert cache.bound(sizes(new, old, middle)) == (0, 0)
    assert cache.bound(sizes(new, middle)) == (1, sizes(new))
    assert [path.exists() for path in (new, old, middle)] == [True, False, True]
    assert cache.bound(0).folders == 2 and list(new.parent.iterdir()) == []


def test_a_folder_in_use_remains_also_for_another_process(home: Path) -> None:
    path = filled(home / "one", 10)
    use = cache.used(path)
    code = "from dashcam._fleet.tables import cache; print(cache.bound(0).folders)"
    bound = [sys.executable, "-c", code]
    assert subprocess.run(bound, check=True, capture_output=True, text=True).stdout == "0\n" and path.exists()
    assert path.stat().st_mtime > 10, "its use is remembered"
    use.close()
    assert subprocess.run(bound, check=True, capture_output=True, text=True).stdout == "1\n" and not path.exists()


def test_what_a_killed_process_left_is_removed(home: Path) -> None:
    path = filled(home / "one", 10)
    left = path.rename(path.with_name(f".{path.name}-1"))
    assert cache.bound() == (0, 0) and not left.exists()


def test_a_folder_that_is_removed_while_it_is_opened_is_made_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(home / "one", 10)
    flock, removed = cache.fcntl.flock, []

    def late(handle: int, how: int) -> None:
        if not removed:
            removed.append(path.rename(path.with_name("elsewhere")))
        flock(handle, how)

    monkeypatch.setattr(cache.fcntl, "flock", late)
    use = cache.used(path)
    assert removed and list(path.iterdir()) == []
    use.close()


def test_on_a_file_system_without_locks_nothing_is_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(home / "one", 10)

    def none(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(cache.fcntl, "flock", none)
    use = cache.used(path)
    assert cache.bound(0) == (0, 0) and path.exists()
    use.close()


def test_a_question_bounds_the_cache_and_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.bound, "__defaults__", (0,))
    old, source = filled(home / "old", 10), home / "captures"
    source.mkdir()
    (source / "a.dashcam").write_bytes(golden("sleep-library"))
    with Fleet(source, jobs=1) as fleet:
        assert not old.exists() and cache.folder(source, False).exists()
        assert [note for note in fleet.notes if "removed 1 folders of it" in note] == fleet.notes
        assert fleet.why().totals["captures"] == 1
    with Fleet(source, jobs=1) as fleet:
        assert fleet.notes == []
