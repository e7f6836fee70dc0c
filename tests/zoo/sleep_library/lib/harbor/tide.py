"""Its front."""

from harbor import mooring


def quote(n: int, rare: bool) -> int:
    return mooring.fasten(n, rare) + 1
