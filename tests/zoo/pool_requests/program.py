"""All requests ask a peer over one connection of requests' blocking pool; sometimes a thread asks for
a long page over it. In the twin that thread has a session of its own."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402
import service  # noqa: E402

import threading  # noqa: E402
import time  # noqa: E402

import requests  # noqa: E402
from requests.adapters import HTTPAdapter  # noqa: E402

base = f"http://127.0.0.1:{beside.start('peer.py')}"


def session() -> requests.Session:
    made = requests.Session()
    made.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=1, pool_block=True))
    return made


shared = session()
own = shared if service.SICK else session()


def digest() -> None:
    own.get(base + "/long")


def mailer() -> None:
    while True:
        time.sleep(2.1)
        digest()


def look_up(n: int) -> str:
    return shared.get(base + "/short").text


def answer(n: int) -> str:
    return f"{service.honest_work(n)} {look_up(n)}"


if __name__ == "__main__":
    look_up(0)
    threading.Thread(target=mailer, daemon=True).start()
    service.plain(answer)
