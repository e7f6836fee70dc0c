"""The user's cache: tables of folders of captures that are asked about without `index`.

How it works: each folder of captures has one of tables, named by a hash of its path. A process that
uses it has a shared lock on the folder itself, and renews its time of use. `bound` removes others while
all of them are larger than `BYTES_MAX`, the one that was unused for the longest time first: it takes
a lock that excludes users, without waiting, renames the folder and removes it.

What it promises: tables that a question uses are not removed, by any process; two processes may
bound the cache at once. What is removed is only judged again. The tables in use may be larger than
the bound by themselves.

What is missing on purpose: a setting. `XDG_CACHE_HOME` moves the cache; `index` writes tables that
nothing removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Of all folders together: the rows of some 400,000 captures in small files.
BYTES_MAX = 2 << 30
# Before the name of a folder that is being removed.
REMOVED = "."


class Removed(NamedTuple):
    """What `bound` removed."""

    folders: int
    bytes: int

    def __str__(self) -> str:
        return (f"the cache of tables was larger than {BYTES_MAX >> 20:,} MiB: removed {self.folders} folders of it ({self.bytes / (1 << 20):,.1f} MiB); "
                "their captures are judged again if they are asked about")


def folder(source: Path, native_names: bool) -> Path:
    """The folder of this user for the tables of a folder of captures."""
    key = os.fsencode(source.resolve()) + (b"+native" if native_names else b"")
    return _base() / hashlib.sha256(key).hexdigest()[:32]


class Use:
    """A folder in use, until this is closed or gone."""

    def __init__(self, handle: int) -> None:
        self.handle: int | None = handle

    def close(self) -> None:
        """Ends the use."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    __del__ = close


def used(path: Path) -> Use:
    """Makes the folder if there is none, and takes it into use."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            # A file system without locks has none that excludes users, either: nothing is removed.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_SH)
            # It may have been removed between both.
            if _is_same(handle, path):
                os.utime(handle)
                return Use(handle)
            os.close(handle)


def bound(bytes_max: int = BYTES_MAX) -> Removed:
    """Removes what is too much."""
    found = sorted(_folders())
    sizes = {folder: _size(folder) for _, folder in found}
    whole, folders, freed = sum(sizes.values()), 0, 0
    for _, folder in found:
        if whole - freed <= bytes_max:
            break
        if _remove(folder):
            folders += 1
            freed += sizes[folder]
    return Removed(folders, freed)


def _base() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dashcam", "fleet")


def _folders() -> Iterator[tuple[int, Path]]:
    """When each folder was used for the last time, and the folder."""
    with contextlib.suppress(FileNotFoundError):
        for path in _base().iterdir():
            if path.name.startswith(REMOVED):
                # A process ended in the middle of it.
                shutil.rmtree(path, ignore_errors=True)
                continue
            with contextlib.suppress(FileNotFoundError):
                if path.is_dir():
                    yield path.stat().st_mtime_ns, path


def _remove(path: Path) -> bool:
    """Removes a folder that is not in use; returns whether it did."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same(handle, path):
            return False
        away = path.with_name(f"{REMOVED}{path.name}-{os.getpid()}")
        path.rename(away)
    except OSError:
        return False
    finally:
        os.close(handle)
    shutil.rmtree(away, ignore_errors=True)
    return True


def _is_same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.lstat().st_size
    return size
