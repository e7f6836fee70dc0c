"""`dashcam ship` to a server of S3 (moto), and questions to what is there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dashcam

boto3 = pytest.importorskip("boto3")
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
import threading  # noqa: E402
from typing import Any  # noqa: E402

import planted  # noqa: E402
from dashcam._fleet.ship import shipping  # noqa: E402
from dashcam._fleet.ship.state import State  # noqa: E402
from dashcam._fleet.tables import places  # noqa: E402
from fleets import clone  # noqa: E402


class Server:
    """The server; it can be told to fail, and remembers what it was asked."""

    def __init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)
        self.failures: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, environment: dict[str, Any], respond: Any) -> Any:
        """A WSGI application."""
        self.asked.append((environment["REQUEST_METHOD"], environment["PATH_INFO"]))
        if self.failures:
            code = self.failures.pop(0)
            respond(f"{code} no", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{'SlowDown' if code == 503 else 'AccessDenied'}</Code><Message>no</Message></Error>".encode()]
        return self.app(environment, respond)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with a bucket, found as a user's tools find it."""
    one = Server()
    address = f"http://127.0.0.1:{one.server.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=address, region_name="us-east-1").create_bucket(Bucket="acme")
    one.asked.clear()
    yield one
    one.server.shutdown()
    one.thread.join()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three captures of hosts, and one that is none."""
    folder = tmp_path / "captures"
    folder.mkdir()
    [data, *_] = planted.golden()
    for nth in range(3):
        whole = clone(data, host=f"h{nth}", service="bücher laden", start_epoch_ns=planted.BEGIN_NS, labels={"version": "1.0"})
        (folder / f"{nth}.dashcam").write_bytes(whole)
    (folder / "junk.dashcam").write_bytes(b"junk")
    return folder


def shipper(source: Path, state: Path, report: Any = print) -> shipping.Shipper:
    """Sends to the bucket."""
    return shipping.Shipper(source, places.opened("s3://acme/fleet"), State(state), report=report)


def test_rows_are_put_once_and_nothing_else_is_asked(server: Server, source: Path, tmp_path: Path) -> None:
    sent = shipper(source, tmp_path / "state").all()
    assert (sent.captures, sent.refused) == (3, 1)
    assert [method for method, _ in server.asked] == ["PUT"] * sent.files, server.asked
    with dashcam.fleet("s3://acme/fleet") as fleet:
        first = fleet.why().json()
    assert (first["captures"], first["hosts"], first["refused"]) == (3, 3, 1)
    assert first["groups"][0]["service"] == "bücher laden"
    # Without its state it sends all again, and nothing counts twice.
    shipper(source, tmp_path / "other").all()
    with dashcam.fleet("s3://acme/fleet") as fleet:
        assert fleet.why().json() == first


def test_a_server_that_fails_is_asked_again(server: Server, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "PAUSE_S", 0.0)
    # More than the client of AWS tries by itself; and one that it does not try again.
    server.failures = [503] * 12 + [403]
    lines: list[str] = []
    sent = shipper(source, tmp_path / "state", lines.append).all(tries=None)
    assert sent.captures == 3 and not server.failures
    assert any("tried again" in line for line in lines), lines
    with dashcam.fleet("s3://acme/fleet") as fleet:
        assert fleet.why().totals["captures"] == 3


def test_a_bucket_that_is_not_there_is_an_error(server: Server, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "PAUSE_S", 0.0)
    one = shipping.Shipper(source, places.opened("s3://nobody/fleet"), State(tmp_path / "state"), report=print)
    with pytest.raises(OSError, match="(?i)bucket"):
        one.all()
    with pytest.raises(dashcam.CaptureError, match="found no tables of a fleet"):
        dashcam.fleet("s3://acme/nothing")
