"""What the tests of `make test-fleet` share: one cluster, one fleet, two engines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tools")]

import cluster  # noqa: E402
import planted  # noqa: E402
from dashcam._fleet.fleet import Fleet  # noqa: E402
from dashcam._fleet.tables import indexing, store  # noqa: E402


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    """The cluster; its settings are those of this process's sessions, too."""
    with cluster.started(tmp_path_factory.mktemp("spark") / "cluster") as running:
        os.environ.update(running.environment)
        yield running


class Both(NamedTuple):
    """A fleet, asked by both engines."""

    tables: Path
    duckdb: Fleet
    spark: Fleet


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of 130 captures and their counts; some captures were judged by older rules, too."""
    folder = tmp_path_factory.mktemp("captures")
    assert planted.captures(folder) == 130
    out = folder / indexing.INSIDE
    indexing.index(folder, out)
    planted.counts(folder, store.read(out, "requests").to_table().to_pylist())
    indexing.count(folder, out)
    for name in ("captures", "findings", "requests"):
        rows = [row | {"rules_version": "0.0.9"} for row in store.read(out, name).to_table().to_pylist() if row["host"] == "host-05"]
        store.write(out, {name: planted.table(name, rows)})
    return out


@pytest.fixture(scope="session")
def both(tables: Path, spark: cluster.Cluster) -> Iterator[Both]:
    """Both engines, on the same tables."""
    with Fleet(tables) as here, Fleet(tables, engine=spark.master) as there:
        yield Both(tables, here, there)
