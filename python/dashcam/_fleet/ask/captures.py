"""The file of a row's capture.

How it works: `uri` is a path relative to the folder of the captures; or `//HOST/NAME` (HOST is percent-encoded),
of a capture that remained on its host when `dashcam ship` sent its rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

# Before host and name of a capture that is somewhere else.
ELSEWHERE = "//"


class Capture(NamedTuple):
    """The capture that a row names."""

    folder: Path | None
    uri: str

    @property
    def host(self) -> str | None:
        """The host that it remained on; None: it is below the folder."""
        return unquote(self.uri[2:].partition("/")[0]) if self.uri.startswith(ELSEWHERE) else None

    @property
    def name(self) -> str:
        """Its path; on another host relative to the folder of captures there."""
        if self.host is not None:
            return self.uri[2:].partition("/")[2]
        return str(self.folder / self.uri) if self.folder else self.uri

    @property
    def path(self) -> str:
        """Its path, with its host before it if it is on another one, as scp has them."""
        return self.name if self.host is None else f"{self.host}:{self.name}"

    @property
    def is_there(self) -> bool:
        """Whether it can be opened here."""
        return self.host is None and self.folder is not None and (self.folder / self.uri).is_file()
