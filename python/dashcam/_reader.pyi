"""The native reader of captures; `dashcam.reading` is its public form."""

import os
from typing import Any, final


TABLES: list[str]

def columns(name: str) -> list[tuple[str, str, str]] | None: ...

@final
class Capture:
    def __new__(cls, path: str | os.PathLike[str], native_names: bool = True) -> Capture: ...
    @property
    def notes(self) -> list[str]:
        """What could not be named, and why."""
    @property
    def damage(self) -> list[str]:
        """What is wrong with the file."""
    def summary(self) -> str: ...
    def why(self, slow: str | None = None) -> tuple[str, str, str]: ...
    def table(self, name: str) -> Table | None: ...

@final
class Table:
    @property
    def name(self) -> str:
        """Its name in SQL."""
    @property
    def about(self) -> str:
        """What a row is, in one sentence."""
    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Name, type and meaning of each column."""
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
