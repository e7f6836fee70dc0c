"""Files of Parquet with the same columns are found by the beginning of their footers."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ibis")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from dashcam._fleet.rows import schema  # noqa: E402
from dashcam._fleet.tables import footers, indexing  # noqa: E402
from test_fleet_rows_of_a_capture import golden  # noqa: E402


def written(path: Path, rows: pa.Table) -> str:
    """A file of rows."""
    pq.write_table(rows, path)
    return str(path)


def test_files_with_the_same_columns_are_one_kind(tmp_path: Path) -> None:
    one = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})
    other_rows = pa.table({"id": pa.array(range(500), pa.int64()), "name": [str(n) for n in range(500)]})
    kinds = {
        "other type": pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}),
        "other name": pa.table({"id": pa.array([1], pa.int64()), "names": ["a"]}),
        "one more": pa.table({"id": pa.array([1], pa.int64()), "name": ["a"], "more": [0.5]}),
        "one less": pa.table({"id": pa.array([1], pa.int64())}),
    }
    files = [written(tmp_path / "a", one), written(tmp_path / "b", other_rows)]
    files += [written(tmp_path / name, rows) for name, rows in kinds.items()]
    assert footers.kinds(files) == [files[0], *files[2:]]
    assert footers.kinds(files[::-1]) == [*files[:1:-1], files[1]]


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_the_list_of_columns_ends_before_what_differs(tmp_path: Path, table: schema.Table) -> None:
    rows = schema.arrow(table).empty_table()
    twice = pa.table([pa.nulls(2, field.type) for field in rows.schema], schema=rows.schema)
    footer, other = (footers._footer(written(tmp_path / name, found)) for name, found in (("a", rows), ("b", twice)))
    end = footers.columns_end(footer)
    assert footer[:end] == other[:end] and schema.arrow(table).names[-1].encode() in footer[:end]
    # Behind it is how many rows there are: a 64-bit number of the third field.
    assert footer[end] == other[end] == 0x16 and (footer[end + 1], other[end + 1]) == (0, 4)


def test_a_damaged_footer_makes_a_kind_of_its_own(tmp_path: Path) -> None:
    whole = Path(written(tmp_path / "whole", schema.arrow(schema.CAPTURES).empty_table())).read_bytes()
    footer = whole[-8 - int.from_bytes(whole[-8:-4], "little"):-8]
    end = footers.columns_end(footer)
    chance = random.Random(1)
    for _ in range(500):
        damaged = bytearray(footer[:chance.randrange(len(footer))])
        for _ in range(chance.randrange(4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        assert 0 <= footers.columns_end(bytes(damaged)) <= len(damaged)
    assert footers.columns_end(footer[:end - 1]) == 0 and footers.columns_end(b"") == 0
    for name, data in (("empty", b""), ("short", b"PAR1"), ("text", b"text" * 40), ("long", b"\xff\xff\xff\x7fPAR1")):
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / name) for name in ("whole", "empty", "whole", "short", "text", "long")]
    assert footers.kinds(files) == [files[0], files[1], *files[3:]]


def test_a_question_loads_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "a.dashcam").write_bytes(golden("sleep-library"))
    indexing.index(tmp_path, tmp_path / indexing.INSIDE, jobs=1)
    code = ("import sys; from dashcam._fleet.fleet import Fleet; from dashcam._fleet.tables import duck; duck.SMALL_BYTES = 0\n"
            f"with Fleet({str(tmp_path / indexing.INSIDE)!r}) as fleet: assert fleet.why().causes\n"
            "print({'pandas', 'pyarrow.dataset'} & set(sys.modules))")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"
