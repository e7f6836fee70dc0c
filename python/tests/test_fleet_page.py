"""`dashcam fleet view`: the page's data, its bounds, and that no name can become markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

from dashcam._fleet import command  # noqa: E402
from dashcam._fleet.ask import page  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import Cause, Drawn  # noqa: E402

import dashcam  # noqa: E402

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two causes on ten hosts in three days; the second one's name is markup."""
    drawn = Drawn(3, 10, 3, [Cause("refresh", 3.0, 2.0), Cause(HOSTILE, 1.0, 1.0)], versions=lambda host, day: "2.0" if day > 2 else None)
    folder = tmp_path_factory.mktemp("fleet")
    store.write(folder, drawn.tables())
    return dashcam.fleet(folder)


def data_of(text: str) -> dict[str, Any]:
    """The data of a page, as the browser finds it."""
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    whole: dict[str, Any] = json.loads(found)
    return whole


def test_cells_add_up_to_the_excess_of_their_causes(fleet: Fleet) -> None:
    found = data_of(fleet.view())
    why = fleet.why()
    assert [row["fingerprint"] for row in found["causes"]] == [row["fingerprint"] for row in why.causes]
    cells = found["cells"]
    for at, row in enumerate(why.causes):
        own = [ns for cause, ns in zip(cells["cause"], cells["excess_ns"]) if cause == at]
        assert sum(own) == pytest.approx(row["excess_ns"])
        assert found["causes"][at]["rest_ns"] == 0
    assert {found["versions"][at]["version"] for at in cells["version"]} == {None, "2.0"}
    hours = cells["hour"]
    assert (found["from_hour"], found["hours"]) == (min(hours), max(hours) - min(hours) + 1)
    for at, row in enumerate(why.causes):
        assert found["captures"][found["causes"][at]["worst"]] == row["worst"]["path"]


def test_what_is_beyond_the_bound_is_counted(fleet: Fleet) -> None:
    whole = page.data(fleet._asked(), "x", 10, Path(fleet.uri))
    few = page.data(fleet._asked(), "x", 10, Path(fleet.uri), most=3)
    assert len(few["cells"]["cause"]) == 3
    assert few["cells"]["excess_ns"] == sorted(whole["cells"]["excess_ns"], reverse=True)[:3]
    rest = sum(row["rest_ns"] for row in few["causes"])
    assert rest + sum(few["cells"]["excess_ns"]) == pytest.approx(sum(row["excess_ns"] for row in whole["causes"]))


def test_a_name_is_no_markup(fleet: Fleet) -> None:
    text = fleet.view()
    assert HOSTILE in [row["fingerprint"] for row in data_of(text)["causes"]]
    assert "<img" not in text and text.count("</script>") == 2
    assert "onerror=alert" not in text.replace("\\u003cimg src=x onerror=alert", "")
    assert "default-src 'none'" in text


def test_the_command_writes_the_page(fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert command.main(["view", fleet.uri, "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: ")
    assert data_of(out.read_text("utf-8"))["title"] == f"Fleet {fleet.uri}"
    assert command.main(["view", fleet.uri, "-o", str(tmp_path / "no" / "page.html")]) == 3
