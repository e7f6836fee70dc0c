"""Three calls away in a library, a pause. The twin does without."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import service  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import harbor  # noqa: E402


def answer(n: int) -> str:
    return str(service.honest_work(n) + harbor.quote(n, rare=service.SICK and n % 90 == 40))


if __name__ == "__main__":
    service.flask(answer)
