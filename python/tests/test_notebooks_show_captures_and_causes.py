"""In notebooks captures and causes are tables, and no name in them is markup."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Bench

from dashcam import _notebook, reading

PLACE: Any = {"function": "load<b>", "qualified": "load", "file": "/srv/a|b.py", "line": 7, "module": "a"}


def causes(**changed: Any) -> reading.Causes:
    cause: Any = {
        "rank": 1, "cause": "sleep", "share": 0.935, "confidence": "confirmed", "where": PLACE, "summary": "a_b\nslept",
    }
    return reading.Causes([cause | changed])


def test_causes_are_a_table_in_markdown() -> None:
    shown = causes()._repr_markdown_().splitlines()
    assert shown == [
        "| # | cause | share | confidence | where | summary |",
        "| --: | --- | --: | --- | --- | --- |",
        r"| 1 | sleep | 94% | confirmed | load&lt;b&gt;() a\|b.py:7 | a\_b slept |",
    ]


def test_causes_are_a_table_in_html() -> None:
    shown = causes(where=None, summary="<script>")._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown
    assert shown.startswith("<table>") and shown.count("<td") == len(_notebook.CAUSES)


def test_causes_are_a_list_as_before() -> None:
    assert isinstance(causes(), list) and causes()[0]["cause"] == "sleep"


def test_requests_are_the_slowest_names_and_the_count_of_the_others() -> None:
    names: Any = [{"name": f"n{i}", "count": 1, "median_ms": 1.0, "worst_ms": float(i)} for i in range(60)]
    rows = _notebook.requests(names)
    assert rows[0] == ("n59", "1", "1.00", "59.00")
    assert len(rows) == 51 and rows[-1][0] == "and 10 other names"


@pytest.mark.parametrize("form", ["_repr_markdown_", "_repr_html_"])
def test_a_capture_shows_process_reason_and_requests(bench: Bench, form: str) -> None:
    result = bench.python(f"""
        import dashcam
        dashcam.start(service="billy", memory="1MiB", at_exit="never")
        with dashcam.request("GET /<x>"):
            pass
        capture = dashcam.open(dashcam.snap("a test"))
        print(capture.{form}())
        assert "## " in capture.why()._repr_markdown_() or capture.why().markdown
    """)
    assert result.returncode == 0, result.stderr
    for text in ["billy, process ", "a test", "GET /&lt;x&gt;", "median ms"]:
        assert text in result.stdout, result.stdout
