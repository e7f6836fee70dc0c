"""Programs under test run in processes of their own: what is tested is what a host would see."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest

BIN = Path(sys.executable).parent
DASHCAM = str(BIN / "dashcam")


class Bench:
    """A folder, and ways to run programs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []

    def write(self, name: str, code: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    def python(self, code: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs code that uses the package itself, warnings being errors."""
        path = self.write("program.py", code)
        return subprocess.run([sys.executable, "-W", "error", str(path)], cwd=self.folder,
                              env={**os.environ, **env}, capture_output=True, text=True, timeout=60)

    def dashcam(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs the command."""
        return subprocess.run([DASHCAM, *words], cwd=self.folder, env={**os.environ, **env},
                              capture_output=True, text=True, timeout=60)

    def start(self, words: list[str], **env: str) -> "subprocess.Popen[str]":
        """Starts a service; it is ended with the test."""
        process = subprocess.Popen(words, cwd=self.folder, env={**os.environ, **env},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def show(self, path: Path | str) -> dict[str, Any]:
        """What is in a capture."""
        result = self.dashcam("show", "--json", str(path))
        assert result.returncode == 0, result.stderr
        shown: dict[str, Any] = json.loads(result.stdout)
        return shown

    def captures(self, folder: str = "captures") -> list[Path]:
        """The captures in the folder, oldest first."""
        found = (self.folder / folder).glob("*.dashcam")
        return sorted(found, key=lambda p: p.stat().st_mtime)

    def wait_captures(self, seconds: float = 15) -> list[Path]:
        """As `captures`, once there is one."""
        end = time.monotonic() + seconds
        while not self.captures() and time.monotonic() < end:
            time.sleep(0.05)
        return self.captures()


def free_port() -> int:
    """A port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str = "/", seconds: float = 20) -> str:
    """Asks a service, waiting until it is up."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
                return str(reply.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A folder of one's own."""
    made = Bench(tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.communicate()
