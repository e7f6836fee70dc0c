"""Makes the source archive `dashcam-VERSION.tar.gz`, from which pip builds all of it: the binding, the
command, the reader.

    python3 tools/sdist.py FOLDER

How it works: the files that git knows in the folders below, a PKG-INFO by Maturin, and a pyproject.toml
that names `tools/source_build` as the backend. The same commit gives the same bytes. It needs the
package `maturin`.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What is built, and what cargo reads to know the workspace.
PARTS = ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "crates", "c", "python", "viewer/dist/page.html",
         "tools/source_build"]
#: Tests of the package, which need a checkout.
NOT = ["python/tests/"]


def files() -> list[str]:
    """The files of the archive, by name."""
    found = subprocess.run(["git", "ls-files", "-z", "--", *PARTS], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    names = found.stdout.decode().split("\0")
    return sorted(name for name in names if name and not any(name.startswith(left_out) for left_out in NOT))


def pkg_info() -> bytes:
    """The metadata of the package."""
    (ROOT / "python/dashcam.data/scripts").mkdir(parents=True, exist_ok=True)  # Maturin wants it, empty or not.
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "maturin", "pep517", "write-dist-info", "--metadata-directory", folder,
                        "--manifest-path", str(ROOT / "python/Cargo.toml"), "--interpreter", sys.executable],
                       cwd=ROOT / "python", check=True, stdout=subprocess.DEVNULL)
        (info,) = Path(folder).glob("*.dist-info")
        return (info / "METADATA").read_bytes()


def pyproject() -> bytes:
    """Which backend builds it, with what."""
    text = (ROOT / "python/pyproject.toml").read_text("utf-8")
    requires = re.search(r"^requires = .*$", text, re.MULTILINE)
    if requires is None:
        raise SystemExit("sdist: python/pyproject.toml: found no `requires = ...`, wanted that of [build-system]")
    return f"""[build-system]
{requires[0]}
build-backend = "backend"
backend-path = ["tools/source_build"]
""".encode()


def make(folder: Path) -> Path:
    """Writes the archive into the folder; returns its path."""
    info = pkg_info()
    version = re.search(rb"^Version: (.+)$", info, re.MULTILINE)
    if version is None:
        raise SystemExit("sdist: the metadata by Maturin: found no Version, wanted one")
    root = f"dashcam-{version[1].decode()}"
    time = int(subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    contents = {name: (ROOT / name).read_bytes() for name in files()}
    contents |= {"PKG-INFO": info, "pyproject.toml": pyproject()}
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{root}.tar.gz"
    with open(archive, "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=time) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mtime = len(content), time
            entry.mode = 0o755 if os.access(ROOT / name, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return archive


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(make(Path(sys.argv[1])))
