"""The same questions through Spark Connect, to the server that PySpark's wheel carries."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bound
import cluster
import pytest
from cells import differing
from dashcam._fleet.fleet import Fleet
from dashcam._fleet.tables.engine import EngineError, QueryError

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = r"SparkConnectService\S*' on port (\d+)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with its own executor."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(cluster.DEFAULTS, "utf-8")
    settings = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0", "spark.ui.enabled": "false"}
    words = [str(cluster.HOME / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[1]",
             *(word for pair in settings.items() for word in ("--conf", "=".join(pair))), "spark-internal"]
    environment = os.environ | {"SPARK_HOME": str(cluster.HOME), "SPARK_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1",
                                "PYSPARK_PYTHON": sys.executable, "LC_ALL": "C.UTF-8"}
    log = folder / "log"
    with open(log, "wb") as out:
        process = bound.start(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until = time.monotonic() + cluster.PATIENCE_S
        while not (found := re.search(STARTED, log.read_text("utf-8", "replace"))):
            if time.monotonic() > until or process.poll() is not None:
                raise TimeoutError(f"no server:\n{log.read_text('utf-8', 'replace')}")
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{found[1]}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def pair(tables: Path, server: str) -> Iterator[tuple[Fleet, Fleet]]:
    """The fleet asked of DuckDB, and through the server."""
    with Fleet(tables) as here, Fleet(tables, engine=server) as there:
        yield here, there


def test_causes_and_queries_are_the_same(pair: tuple[Fleet, Fleet]) -> None:
    here, there = pair
    compared, wrong = differing(there.why(top=1000).json(), here.why(top=1000).json())
    assert compared > 1000 and not wrong, wrong[:20]
    query = "select service, count(*) as n from captures group by service order by service"
    assert there.sql(query).fetchall() == here.sql(query).fetchall()


def test_tables_of_captures_are_the_same(pair: tuple[Fleet, Fleet]) -> None:
    query = "select host, count(*) as n, sum(duration_ns) as ns from raw.waits group by host order by host"
    asked = [fleet.sql(query).fetchall() for fleet in pair]
    assert asked[0] == asked[1] and len(asked[0]) > 1
    assert pair[0].notes[-1] == pair[1].notes[-1]


def test_a_wrong_query_is_refused_in_a_line(pair: tuple[Fleet, Fleet]) -> None:
    with pytest.raises(QueryError, match="nowhere") as error:
        pair[1].sql("select * from nowhere")
    assert "\n" not in str(error.value)


def test_a_server_that_is_not_there_is_refused_at_once(tables: Path) -> None:
    with socket.socket() as taken:
        # Bound, and it does not listen.
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"{address}: Connection refused; wanted a Spark Connect server there"):
            Fleet(tables, engine=f"sc://{address}/;user_id=me")
