"""A shop's price page; every eightieth answer pauses right in the view. The twin does not
pause."""

from __future__ import annotations

import itertools
import logging
import os
import time

from flask import Flask

app = Flask("bazaar")
turns = itertools.count(1)
logging.getLogger("werkzeug").setLevel(logging.ERROR)


def tally(n: int) -> int:
    return sum(i * i for i in range(3000 + n % 5))


@app.get("/quote/<sku>")
def quote(sku: str) -> str:
    n = next(turns)
    total = tally(n)
    if n % 80 == 40:
        time.sleep(0.6)
    return f"{sku} {total}"


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ["PORT"]), threaded=True)
