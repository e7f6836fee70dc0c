"""Threads that write statements keep their connections while they wait for a slow archive; requests
need one, too.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import stage  # noqa: E402

import charges  # noqa: E402
import metered  # noqa: E402


def answer(n: int) -> str:
    return str(charges.charge(n))


if __name__ == "__main__":
    metered.begin(0.3 if stage.service.SICK else 0.001)
    stage.waitress(answer)
