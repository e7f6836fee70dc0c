"""Where a fleet's tables are: a folder, or a prefix of an object store.

How it works: an address with a scheme (`s3://bucket/fleet`) is opened by the file systems of
pyarrow: S3, Google, Azure and what else it was built with. Credentials, region and endpoint are
found as that store's own tools find them (`AWS_PROFILE`, `AWS_ENDPOINT_URL`, ...).

What it promises: a store is only read, and written to by new names: nothing is listed or read in
order to write, so credentials that may only put are enough for `ship`.

What is missing on purpose: captures in object stores. Rows are there; captures remain on their
hosts.
"""

# pyarrow has no types; what pyright infers from its source is wrong.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Union

from pyarrow import ArrowException, fs

from dashcam.reading import CaptureError

# What Spark calls them.
SCHEMES = {"s3a": "s3", "s3n": "s3"}


class Bucket(NamedTuple):
    """A prefix of an object store."""

    uri: str
    """As it was given, without parameters."""
    files: fs.FileSystem
    path: str

    def listed(self, folder: str) -> list[str]:
        """The Parquet files below a folder, in order. Raises OSError."""
        found = self.files.get_file_info(fs.FileSelector(f"{self.path}/{folder}", recursive=True, allow_not_found=True))
        return sorted(info.path for info in found if info.type == fs.FileType.File and info.path.endswith(".parquet"))

    def put(self, name: str, data: bytes) -> None:
        """Writes a file; nobody sees a part of it. Raises OSError."""
        with self.files.open_output_stream(f"{self.path}/{name}") as out:
            out.write(data)

    def __str__(self) -> str:
        return self.uri


Place = Union[Path, Bucket]


def opened(given: str | os.PathLike[str]) -> Place:
    """The place with this address. Raises CaptureError for one that cannot be opened."""
    text = os.fspath(given)
    scheme, colons, rest = text.partition("://")
    if not colons:
        return Path(text)
    if scheme == "file":
        return Path(rest)
    scheme = SCHEMES.get(scheme, scheme)
    if scheme == "s3":
        # A small file is one request, not the three of an upload in parts.
        rest += f"{'&' if '?' in rest else '?'}allow_delayed_open=true"
    try:
        files, path = fs.FileSystem.from_uri(f"{scheme}://{rest}")
    except (OSError, ValueError, ArrowException) as error:
        raise CaptureError(f"{text}: {error}; wanted a folder, or an address like s3://bucket/fleet") from None
    return Bucket(text.partition("?")[0].rstrip("/"), files, path.rstrip("/"))


def uri(place: Place) -> str:
    """A place as all machines of a cluster name it."""
    return f"file://{place.resolve()}" if isinstance(place, Path) else place.uri
