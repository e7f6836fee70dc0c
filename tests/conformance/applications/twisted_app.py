"""Twisted's web server with resources of every kind: `twisted_app.py PORT`."""

from __future__ import annotations

import sys
from typing import Any, Generator

from noting import kinds, note, stack, threads
from twisted.internet import defer, reactor, task
from twisted.internet.threads import deferToThread
from twisted.python import log
from twisted.web import resource, server

def write_error(event: Any) -> None:
    """Twisted's log names ports; what failed is in its errors."""
    if event["isError"]:
        sys.stderr.write(f"{log.textFromEventDict(event)}\n")


log.startLoggingWithObserver(write_error, setStdout=False)


def said(request: Any, what: str, *more: Any) -> None:
    """A note for the exchange of a request, which says when it ends as well."""
    case = request.getHeader("x-case") or ""
    note(case, what, kinds(type(request).process), sorted(vars(request)), hash(request) == id(request) >> 4 or "hashed",
         stack(), threads(), *more)
    ended = request.notifyFinish()
    ended.addBoth(lambda result: note(case, "ended", str(result).split(":")[0], stack()))


class Leaf(resource.Resource):
    """Answers at once."""

    isLeaf = True

    def render_GET(self, request: Any) -> Any:
        said(request, "plain")
        return b"plain " + request.path

    def render_POST(self, request: Any) -> Any:
        said(request, "posted")
        return b"post " + request.content.read()


class Raises(Leaf):
    def render_GET(self, request: Any) -> Any:
        said(request, "raises")
        raise LookupError("unhandled")


class Streams(Leaf):
    """Parts, with turns of the reactor between them."""

    def render_GET(self, request: Any) -> Any:
        said(request, "streams")
        self.parts(request).addErrback(log.err)
        return server.NOT_DONE_YET

    @defer.inlineCallbacks
    def parts(self, request: Any) -> Generator[Any, Any, None]:
        for part in range(4):
            request.write(b"part %d " % part)
            yield task.deferLater(reactor, 0, lambda: None)
        note(request.getHeader("x-case") or "", "streamed", stack())
        self.ends(request)

    def ends(self, request: Any) -> None:
        request.finish()


class StreamsAndFails(Streams):
    def ends(self, request: Any) -> None:
        request.processingFailed(log.failure.Failure(LookupError("while streaming")))


class Threads(Leaf):
    """The work of a thread."""

    def render_GET(self, request: Any) -> Any:
        def worked(result: bytes) -> None:
            request.write(result)
            request.finish()

        def work(words: bytes, *, more: bytes) -> bytes:
            note(request.getHeader("x-case") or "", "worked", stack())
            return words + more

        said(request, "threads")
        deferToThread(work, b"from a ", more=b"thread").addCallback(worked)
        return server.NOT_DONE_YET


class Awaits(Leaf):
    """A coroutine."""

    def render_GET(self, request: Any) -> Any:
        async def answer() -> None:
            await task.deferLater(reactor, 0, lambda: None)
            note(request.getHeader("x-case") or "", "awaited", stack())
            request.setResponseCode(503)
            request.finish()

        said(request, "awaits")
        defer.ensureDeferred(answer())
        return server.NOT_DONE_YET


root = resource.Resource()
for name, leaf in {b"plain": Leaf, b"raises": Raises, b"streams": Streams, b"streams_and_fails": StreamsAndFails,
                   b"threads": Threads, b"awaits": Awaits, b"ready": Leaf}.items():
    root.putChild(name, leaf())
reactor.listenTCP(int(sys.argv[1]), server.Site(root), interface="127.0.0.1")
reactor.run()
