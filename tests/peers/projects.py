"""The projects whose own tests dashcam must pass: a row each. constraints.txt pins what they require.

A row names the source distribution (version and SHA-256), what of it is kept, how its tests run, and
which of them are left out, each with the reason. Tests that want a network or a server of their own
are left out. To add a project: a row here, its requirements in constraints.txt, and a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Mapping, Optional


@dataclass(frozen=True)
class Project:
    """One suite."""

    name: str
    # None: the interpreter's own tests, which need no source.
    version: Optional[str]
    sha256: str
    # What is unpacked of the source: the tests and what configures them, never the package.
    keep: "tuple[str, ...]"
    # Files for pytest; for unittest modules, each in a process of its own.
    run: "tuple[str, ...]"
    kind: Literal["pytest", "unittest"] = "pytest"
    options: "tuple[str, ...]" = ()
    extras: str = ""
    requires: "tuple[str, ...]" = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # A test (or module) and why it is left out, on both sides.
    deselected: Mapping[str, str] = field(default_factory=dict)
    # Whether programs that the tests start are recorded as well: workers of pytest-xdist, servers.
    records_children: bool = False
    # A process of the suite that takes longer is ended.
    seconds: int = 600


PROJECTS = [
    Project(
        "flask",
        "3.1.3",
        "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
        keep=("tests", "examples", "pyproject.toml"),
        run=("tests",),
        extras="[async,dotenv]",
        requires=("pytest", "greenlet"),
    ),
    Project(
        "werkzeug",
        "3.1.9",
        "55ca7c70a75689be937aa27f8ff4b018f06ff4838fc73045560bf0f5a1291060",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[watchdog]",
        requires=("pytest", "pytest-timeout", "cffi", "cryptography", "ephemeral-port-reserve"),
        records_children=True,
    ),
    Project(
        "starlette",
        "1.10.0",
        "b8399098d4c1e3522734f7235dc79b1fc967f96cf139c81e0fa30479e0685f9b",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[full]",
        requires=("pytest", "trio", "blockbuster", "httpx2[zstd]", "opentelemetry-sdk", "pytest-codspeed"),
    ),
    Project(
        "anyio",
        "4.16.0",
        "59bb03251907983d1603d27c3087ddb1e93299ea2163adcdba37899a4fb12ffb",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[trio]",
        options=("-m", "not network"),
        requires=(
            "blockbuster", "coverage", "exceptiongroup", "hypothesis", "psutil", "pytest", "pytest-mock",
            "pytest-timeout", "trustme", "truststore", "uvloop",
        ),
    ),
    Project(
        "uvicorn",
        "0.54.0",
        "a2e33cbfaa0306f8e6b0c13e0cb89d7d7a2da3e62b90c66e18c33d9807b28620",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[standard]",
        options=("-n", "0"),
        requires=(
            "a2wsgi", "coverage", "cryptography", "httpx2", "psutil", "pytest", "pytest-codspeed",
            "pytest-mock", "pytest-xdist", "trustme", "wsproto", "zttp",
        ),
        records_children=True,
    ),
    Project(
        "waitress",
        "3.0.2",
        "682aaaf2af0c44ada4abfb70ded36393f0e307f4ab9456a215ce0020baefc31f",
        keep=("tests", "setup.cfg"),
        run=("tests",),
        options=("--no-cov",),
        requires=("pytest", "pytest-cov"),
        records_children=True,
    ),
]  # fmt: skip
