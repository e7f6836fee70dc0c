"""A rare request touches fresh memory, page by page. The twin touches the same pages again and
again."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import mmap  # noqa: E402

import service  # noqa: E402

SIZE = 700 << 20
PAGE = mmap.PAGESIZE


def spread() -> mmap.mmap:
    sheet = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    sheet.madvise(mmap.MADV_NOHUGEPAGE)
    return sheet


def unfold(size: int) -> int:
    sheet = spread()
    for offset in range(0, size, PAGE):
        sheet[offset] = 1
    return sheet[0]


def answer(n: int) -> str:
    return str(service.honest_work(n) + unfold(SIZE if n % 60 == 30 else PAGE))


if __name__ == "__main__":
    service.plain(answer)
