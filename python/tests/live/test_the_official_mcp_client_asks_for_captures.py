"""`dashcam mcp` and the protocol's own client for Python (`mcp` on PyPI): they agree on a version, and an agent's
questions are answered: which captures, why, what is running, SQL."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from conftest import DASHCAM, Bench

mcp = pytest.importorskip("mcp")
stdio = pytest.importorskip("mcp.client.stdio")

PROGRAM = """
    import time
    import dashcam
    def dozes(): time.sleep(0.15)
    dashcam.start(service="shop", out="captures", slow="100ms", cooldown="1h")
    for request in range(40):
        with dashcam.request("GET /"):
            dozes() if request % 8 == 7 else time.sleep(0.002)
    dashcam.snap("done")
"""


async def _asked(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = {}
    server = mcp.StdioServerParameters(command=DASHCAM, args=["mcp", "captures"], cwd=str(bench.folder), env=bench.environment({}))
    async with stdio.stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        found["initialize"] = (await session.initialize()).model_dump(by_alias=True)
        await session.send_ping()
        found["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        for name, arguments in [
            ("list_captures", {}), ("why", {"capture": "captures"}), ("show", {"capture": "/etc/passwd"}), ("processes", {}),
            ("sql", {"capture": "captures", "query": "select cause from causes order by rank"}),
            ("sql", {"capture": "captures", "query": "select * from read_csv('/etc/passwd')"}),
        ]:
            result = (await session.call_tool(name, arguments)).model_dump(by_alias=True)
            found.setdefault(name, []).append((result["isError"], result["content"][0]["text"]))
    return found


def test_an_agents_questions_are_answered(bench: Bench) -> None:
    path = bench.write("program.py", PROGRAM)
    result = bench.run([sys.executable, "-W", "error", str(path)])
    assert result.returncode == 0, result.stderr
    found = asyncio.run(_asked(bench))
    assert found["initialize"]["protocolVersion"] == "2025-06-18"
    assert found["initialize"]["serverInfo"]["name"] == "dashcam"
    assert {"list_captures", "why", "explain", "diff", "show", "show_request", "sql", "processes", "status", "dump"} == set(found["tools"])
    [(is_error, text)] = found["list_captures"]
    assert not is_error and "shop-" in text, text
    [(is_error, text)] = found["why"]
    assert not is_error and "\n1. sleep: " in text and "dozes()" in text, text
    [(is_error, text)] = found["show"]
    assert is_error and "no capture of that name" in text, text
    assert len(found["processes"]) == 1
    [(is_error, text), (refused, why)] = found["sql"]
    assert not is_error and text.splitlines()[:2] == ["cause", "sleep"], text
    assert refused and "root:" not in why, why
