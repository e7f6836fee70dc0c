"""Calls of hooked functions at the limit of recursion, in greenlets, threads and forks, at the end of
the interpreter, and below the instrumentation of OpenTelemetry: they end as bare."""

from __future__ import annotations

import sys
import textwrap

import pytest
from compared import run
from conftest import Bench

STAND_INS = """
    import os, threading
    from dashcam import _native
    from dashcam._integrations import calls
    class Cursor:
        def execute(self, query, work=lambda: None): return work()
        def executemany(self, query): return query
    class AsyncCursor:
        async def execute(self, query, work=None): return await work
        async def executemany(self, query): return query
    def record():
        calls.patch(_native, types.SimpleNamespace(__name__="psycopg.cursor", Cursor=Cursor))
        calls.patch(_native, types.SimpleNamespace(__name__="psycopg.cursor_async", AsyncCursor=AsyncCursor))
    cursor, async_cursor = Cursor(), AsyncCursor()
"""


def test_recursion_ends_at_the_same_depth(bench: Bench) -> None:
    run(bench, STAND_INS + """
    def depth(call):
        def deeper():
            nonlocal reached
            reached += 1
            call(deeper)
        reached = 0
        try: deeper()
        except RecursionError as error: return reached, len(traceback.extract_tb(error.__traceback__))
    async def deeper():
        global reached
        reached += 1
        await async_cursor.execute("q", deeper())
    def awaited():
        global reached
        reached = 0
        try: deeper().send(None)
        except RecursionError as error: return reached > 50, type(error).__name__
    compare({"execute": lambda: depth(lambda deeper: cursor.execute("q", deeper)),
             "by name": lambda: depth(lambda deeper: cursor.execute(query="q", work=deeper)), "awaited": awaited}, record=record)
    """)


def test_greenlets_may_switch_in_a_call(bench: Bench) -> None:
    pytest.importorskip("greenlet")
    run(bench, STAND_INS + """
    import greenlet
    def interleaved():
        main, seen = greenlet.getcurrent(), []
        def work(name):
            for turn in range(3): seen.append((name, turn, cursor.execute("q", lambda: main.switch(turn))))
            return name
        each = [greenlet.greenlet(work) for _ in range(3)]
        said = [one.switch(name) for name, one in enumerate(each)]
        while alive := [one for one in each if not one.dead]: said += [one.switch("again") for one in reversed(alive)]
        return said, seen
    def killed():
        main, seen = greenlet.getcurrent(), []
        def work():
            try: cursor.execute("q", lambda: main.switch("waits"))
            except greenlet.GreenletExit as error:
                seen.append([f.name for f in traceback.extract_tb(error.__traceback__)])
                raise
        one = greenlet.greenlet(work)
        said = one.switch()
        del one
        gc.collect()
        return said, seen
    def thrown():
        main = greenlet.getcurrent()
        one = greenlet.greenlet(lambda: cursor.execute("q", main.switch))
        one.switch()
        try: one.throw(LookupError("x"))
        except LookupError as error: return [f.name for f in traceback.extract_tb(error.__traceback__)], one.dead
    compare({"interleaved": interleaved, "killed": killed, "thrown": thrown}, record=record)
    with dashcam.request("GET /"): interleaved()
    """)


def test_threads_and_children_leave_their_calls(bench: Bench) -> None:
    run(bench, STAND_INS + """
    import time
    def at_once():
        said, ready = [], threading.Barrier(4)
        def work():
            for turn in range(200): cursor.execute("select %d" % turn)
            ready.wait()
            said.append(cursor.execute("q", threading.active_count))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        # Up to 3.12 the kernel's thread goes behind the join: a fork may warn of it, bare as well.
        while any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads): time.sleep(0.001)
        return len(said)
    def in_a_child(ends):
        reading, writing = os.pipe()
        child = cursor.execute("q", os.fork)
        if child == 0:
            try:
                os.write(writing, repr(cursor.execute("q", lambda: "in the child")).encode())
                if ends == "in the call": cursor.execute("q", lambda: os._exit(3))
            finally: os._exit(4)
        os.close(writing)
        with open(reading, "rb") as pipe: said = pipe.read()
        return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    compare({"at once": at_once, "in a child": lambda: in_a_child("behind it"), "ends in a call": lambda: in_a_child("in the call")}, record=record)
    with dashcam.request("GET /"): at_once(), in_a_child("in the call")
    """)


ENDS = {
    "a daemon waits in a call": """
        started = threading.Event()
        def waits():
            started.set()
            threading.Event().wait()
        threading.Thread(target=lambda: cursor.execute("q", waits), daemon=True).start()
        started.wait()
        """,
    "an exit handler calls": """
        import atexit
        atexit.register(lambda: print(cursor.execute("q", lambda: "at exit")))
        """,
    "the module's end calls": """
        class Last:
            def __del__(self, call=cursor.execute): print(call("q", lambda: "at the end"))
        last = Last()
        """,
    "a file is left open": """
        left_open = os.fdopen(os.dup(1), "w")
        left_open.write("written when it is finalized\\n")
        """,
    "a coroutine waits": """
        class Wait:
            def __await__(self):
                try: yield
                finally: print("closed")
        coroutine = async_cursor.execute("q", Wait())
        coroutine.send(None)
        """,
    "a coroutine is never awaited": """
        coroutine = async_cursor.execute("q", None)
        """,
    "a loop is left": """
        async def main():
            task = asyncio.create_task(async_cursor.execute("q", asyncio.Event().wait()))
            await asyncio.sleep(0)
            return task
        task = asyncio.new_event_loop().run_until_complete(main())
        """,
    "sys.exit in a call": """
        cursor.execute("q", lambda: sys.exit("left"))
        """,
    "an error in a call": """
        def fails(): raise LookupError("in a call")
        cursor.execute("q", fails)
        """,
    "os._exit in a call": """
        cursor.execute("q", lambda: os._exit(7))
        """,
    "a thread that is no daemon": """
        release = threading.Event()
        def waits():
            release.wait()
            print("done", cursor.execute("q", lambda: 5))
        threading.Thread(target=lambda: cursor.execute("q", waits)).start()
        release.set()
        """,
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_as_bare(bench: Bench, end: str) -> None:
    code = textwrap.dedent("\n    import asyncio, sys, types" + STAND_INS) + "if sys.argv[1] == 'recorded':\n" + textwrap.indent(
        'import dashcam\nassert dashcam.start(slow="9s", when=lambda *given: False)\nrecord()\ndashcam.request("GET /").__enter__()\n', "    ")
    program = bench.write("program.py", code + textwrap.dedent(ENDS[end]))
    bare, recorded = (bench.run([sys.executable, str(program), word]) for word in ("bare", "recorded"))
    assert (recorded.returncode, recorded.stdout) == (bare.returncode, bare.stdout), recorded.stderr
    assert without_addresses(recorded.stderr) == without_addresses(bare.stderr)


def without_addresses(text: str) -> str:
    return "\n".join(line.partition("0x")[0] for line in text.splitlines())


# The class that an instrumentation wraps, and a call.
INSTRUMENTED = {
    "redis": ("redis", "Redis", "redis.client", """
        client = redis.Redis(host="127.0.0.1", port=1, retry=None)
        def call(): return client.get("key")
        """),
    "requests": ("requests", "Requests", "urllib3.connectionpool", """
        def call(): return requests.get("http://127.0.0.1:1/a")
        """),
    "httpx": ("httpx", "HTTPXClient", "httpx._client", """
        def call(): return httpx.get("http://127.0.0.1:1/a")
        """),
    "psycopg": ("psycopg", "Psycopg", "psycopg.cursor", """
        def call(): return psycopg.connect("host=127.0.0.1 port=1 user=u dbname=d sslmode=disable")
        """),
}


@pytest.mark.parametrize("library", INSTRUMENTED)
@pytest.mark.parametrize("first", ["opentelemetry", "dashcam"])
def test_instrumentation_of_opentelemetry_works_beside(bench: Bench, library: str, first: str) -> None:
    name, instrumentor, hooked, code = INSTRUMENTED[library]
    for wanted in (name, f"opentelemetry.instrumentation.{name}"):
        pytest.importorskip(wanted)
    run(bench, f"""
    import {name}, importlib
    from opentelemetry.instrumentation.{name} import {instrumentor}Instrumentor as Instrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from dashcam._integrations.calls import HOOKED
    FIRST, HOOKS, module = {first!r}, HOOKED[{hooked!r}], importlib.import_module({hooked!r})
    """ + textwrap.indent(textwrap.dedent(code), "    ") + """
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    instrumentor = Instrumentor()
    def instrument(): instrumentor.instrument(tracer_provider=provider)
    def asked():
        exported.clear()
        try: said = repr(call())
        except Exception as error: said = type(error).__name__, [f.name for f in traceback.extract_tb(error.__traceback__)]
        return said, [(span.name, span.status.status_code.name, len(span.events)) for span in exported.get_finished_spans()]
    def looked_at():
        return [(kinds(getattr(getattr(module, holder), name)), str(inspect.signature(getattr(getattr(module, holder), name))))
                for holder, name, _ in HOOKS if hasattr(getattr(module, holder), name)]
    def taken_off():
        instrumentor.uninstrument()
        said = asked(), looked_at()
        instrument()
        return said
    instrument()
    cases = {"asked": asked, "looked at": looked_at, "taken off": taken_off, "asked again": asked}
    def record():
        # The hooks are in what the instrumentation wraps, or in its wrappers.
        if FIRST == "dashcam":
            instrumentor.uninstrument()
            for one, name, _ in HOOKS: repr(getattr(getattr(module, one), name, None))
            instrument()
    compare(cases, record=record)
    """)
