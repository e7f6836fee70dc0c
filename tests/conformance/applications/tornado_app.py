"""Tornado with handlers of every kind: `tornado_app.py PORT`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

import tornado.web
import tornado.websocket
from noting import kinds, note, stack, threads

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(funcName)s %(message)s")


class Plain(tornado.web.RequestHandler):
    def prepare(self) -> None:
        note(self.request.headers.get("X-Case", ""), "prepare", stack(), threads(), sorted(vars(self.request)))

    async def get(self, name: str = "") -> None:
        note(self.request.headers.get("X-Case", ""), "get", kinds(type(self)._execute), stack())
        self.write(f"plain {name}")

    def post(self, name: str = "") -> None:
        self.write(b"post " + self.request.body)

    head = get

    def on_finish(self) -> None:
        note(self.request.headers.get("X-Case", ""), "finished", self.get_status(), stack())


class Raises(Plain):
    async def get(self, name: str = "") -> None:
        raise LookupError("unhandled")


class Refuses(Plain):
    def get(self, name: str = "") -> None:
        raise tornado.web.HTTPError(403, "refused")


class Streams(Plain):
    async def get(self, name: str = "") -> None:
        for part in range(4):
            self.write(f"part {part} ")
            await self.flush()


class StreamsAndFails(Plain):
    async def get(self, name: str = "") -> None:
        self.write("part")
        await self.flush()
        raise LookupError("while streaming")


class Talks(tornado.websocket.WebSocketHandler):
    def on_message(self, message: Any) -> None:
        self.write_message(message)
        self.close()


async def main() -> None:
    routes: Any = [(r"/plain/([^/]+)", Plain), (r"/raises", Raises), (r"/refuses", Refuses), (r"/streams", Streams),
                   (r"/streams_and_fails", StreamsAndFails), (r"/talks", Talks), (r"/ready", Plain)]
    tornado.web.Application(routes).listen(int(sys.argv[1]), "127.0.0.1")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


asyncio.run(main())
