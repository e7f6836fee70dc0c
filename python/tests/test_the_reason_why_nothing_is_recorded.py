"""Where the native module cannot be loaded, the first `start` says why, and what would do."""

from __future__ import annotations

import pytest
from conftest import Bench

FREE_THREADED = "this is a free-threaded build, which CPython supports from 3.14 on: use one, or a build with the GIL"


@pytest.mark.parametrize(("flags", "version", "is_refused"), [
    ("t", (3, 13, 5), True), ("t", (3, 14, 0), False), ("", (3, 13, 5), False),
])
def test_a_free_threaded_build_of_3_13_is_refused(
    bench: Bench, flags: str, version: tuple[int, int, int], is_refused: bool
) -> None:
    result = bench.python(f"""
        import sys
        from dashcam import _absent
        sys.abiflags, sys.version_info = {flags!r}, {version}
        _absent.why = _absent.explain(ImportError("found none"))
        assert (_absent.why == {FREE_THREADED!r}) == {is_refused}, _absent.why
        assert _absent.start({{}}) is False
    """)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("dashcam: not recording: no native module for cpython 3.1"), result.stderr
    assert (FREE_THREADED in result.stderr) == is_refused
