"""Its back."""

import time


def fasten(n: int, rare: bool) -> int:
    if rare:
        steady(0.6)
    return n


def steady(seconds: float) -> None:
    time.sleep(seconds)
