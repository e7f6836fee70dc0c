"""A thread that inherits the context of a request does not work for that request: it may outlive it.

From 3.14 on `Thread.start` copies the context where `sys.flags.thread_inherit_context` is set, which
is the default of free-threaded builds.
"""

from __future__ import annotations

import sys

import pytest
from conftest import Bench


def test_a_context_copied_at_the_start_has_no_request(bench: Bench) -> None:
    result = bench.python("""
        import contextvars, dashcam
        from dashcam import _native

        class Thread:
            def start(self, fails=False):
                self.context = contextvars.copy_context()
                if fails: raise RuntimeError("can't start new thread")

        _native.hook(Thread, "start", around=_native.start_apart)
        dashcam.start(service="billy")
        with dashcam.request("GET /a") as request:
            one, other = Thread(), Thread()
            one.start()
            assert one.context.run(_native.current_request) == 0
            assert _native.current_request() == request.id != 0
            try: other.start(True)
            except RuntimeError as error: assert str(error) == "can't start new thread", error
            assert _native.current_request() == request.id
        one.start()
        assert _native.current_request() == 0
        assert "notices" not in dashcam.status(), dashcam.status()
    """)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(sys.version_info < (3, 14), reason="threads inherit no context before 3.14")
def test_threads_and_workers_of_pools_inherit_no_request(bench: Bench) -> None:
    program = bench.write("program.py", """
        import concurrent.futures, contextvars, sys, threading, dashcam
        from dashcam import _native
        assert sys.flags.thread_inherit_context
        dashcam.start(service="billy")
        word, seen = contextvars.ContextVar("word"), []
        def check(): seen.append((_native.current_request(), word.get("")))
        pool = concurrent.futures.ThreadPoolExecutor(1)
        with dashcam.request("GET /a") as request:
            word.set("inherited")
            thread = threading.Thread(target=check)
            thread.start(); thread.join()
            pool.submit(check).result()
            own = threading.Thread(target=check, context=contextvars.copy_context())
            own.start(); own.join()
            # Outside of the request the worker that was started in it works for none.
            id = request.id
            contextvars.Context().run(lambda: pool.submit(check).result())
        assert seen == [(0, "inherited"), (id, "inherited"), (id, "inherited"), (0, "inherited")], (id, seen)
    """)
    result = bench.run([sys.executable, "-X", "thread_inherit_context=1", "-W", "error", str(program)])
    assert result.returncode == 0, result.stderr
