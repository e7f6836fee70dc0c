"""A thread packs a large table in one call. The twin packs it box by box."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pickle  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import service  # noqa: E402

cargo = [(i, f"bale {i}", i * 0.5) for i in range(1_000_000)]


def crate_up() -> int:
    return len(pickle.dumps(cargo))


def stevedore() -> None:
    while True:
        time.sleep(2.4)
        crate_up()


def answer(n: int) -> str:
    return str(service.honest_work(n))


if __name__ == "__main__":
    threading.Thread(target=stevedore, daemon=True).start()
    service.reference(answer)
