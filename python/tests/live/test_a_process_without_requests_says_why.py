"""A recorded process that works and begins no request: `ps` says why, and names the child that serves."""

from __future__ import annotations

import json
import sys
from typing import Any

from conftest import DASHCAM, Bench, wait_for


def why(bench: Bench, service: str) -> str:
    """What `ps` says of the only process of a service, once it says something."""
    def said() -> Any:
        rows = json.loads(bench.dashcam("ps", "--json").stdout or "{}").get("processes", [])
        return next((row["no_requests_because"] for row in rows if row["service"] == service), "")

    return str(wait_for("a reason", said))


def test_a_launcher_names_the_child_that_serves(bench: Bench) -> None:
    launcher = bench.write("launcher.py", """
        import subprocess, sys
        sys.exit(subprocess.call([sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1"]))
    """)
    service = bench.start([DASHCAM, "run", "--service", "launched", "--", sys.executable, str(launcher)])
    reason = why(bench, "launched")
    assert "http.server (process " in reason and "listens on 127.0.0.1:" in reason, reason
    assert "DASHCAM_CHILDREN=on" in reason, reason
    assert service.stderr is not None
    assert service.stderr.readline() == f"dashcam: {reason}\n"


def test_a_server_without_an_integration_is_told_what_to_mark(bench: Bench) -> None:
    program = bench.write("own.py", """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.accept()
    """)
    service = bench.start([DASHCAM, "run", "--service", "own", "--", sys.executable, str(program)])
    reason = why(bench, "own")
    assert "listens on 127.0.0.1:" in reason and "@dashcam.request" in reason, reason
    bench.stop(service)
