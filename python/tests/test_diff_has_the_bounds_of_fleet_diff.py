"""`dashcam diff` and `dashcam fleet diff` call the same thing a difference: one is written in Rust, since it
reads captures without Python, the other asks tables."""

from __future__ import annotations

import re
from pathlib import Path

from dashcam._fleet.ask import differing, statistics

DIFF = Path(__file__).parents[2] / "crates" / "cli" / "src" / "diff"


def constant(file: str, name: str) -> float:
    found = re.search(rf"const {name}: f64 = ([0-9.]+);", (DIFF / file).read_text(encoding="utf-8"))
    assert found, f"{name} is in {file}"
    return float(found[1])


def test_both_have_the_same_bounds() -> None:
    for name in ("RATIO_MIN", "SHARE_MIN", "MOVED_RATIO_MAX"):
        assert constant("compare.rs", name) == getattr(differing, name), name
    assert constant("chance.rs", "FALSE_DISCOVERIES") == statistics.FALSE_DISCOVERIES
