"""Calls that a type checker refuses, or does not: no program, and no test of pytest.

`tools/check_types` runs mypy --strict over it, which also reports an `ignore` that nothing needs: a
wrong call that is no error any more.
"""

from __future__ import annotations

import logging
from pathlib import Path

import dashcam
from dashcam.shapes import Cause

dashcam.start(slw="2s")  # type: ignore[call-arg]
dashcam.start(slow=500)  # type: ignore[arg-type]
dashcam.start(keep="many")  # type: ignore[arg-type]
dashcam.start(switches="perhaps")  # type: ignore[arg-type]
dashcam.start(at_exit="sometimes")  # type: ignore[arg-type]
dashcam.start(when="slow")  # type: ignore[arg-type]
dashcam.start("500ms")  # type: ignore[call-arg, arg-type]
dashcam.start(service="billy", slow="500ms", memory=8 << 20, out=Path("captures"), rate_hz=50, switches=False,
              control="off", signal="USR2", when=lambda name, seconds, error: seconds > 1)

dashcam.status()["colour"]  # type: ignore[typeddict-item]
cause: Cause = dashcam.open("captures").why().causes[0]
cause["shaer"]  # type: ignore[typeddict-item]
share: float = cause["share"]
logging.getLogger().addFilter(dashcam.LogFilter())
logging.getLogger().addHandler(dashcam.LogHandler(level=logging.WARNING))
