"""Requests, spans and events are read back from a capture, with sync and async code alike."""

from __future__ import annotations

from conftest import Bench


def test_requests_spans_and_events_are_in_the_capture(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        assert dashcam.start(service="billy", slow="500ms") is True
        assert dashcam.start() is False, "idempotent"
        with dashcam.request("GET /checkout", user=42):
            with dashcam.span("db.query", rows=3, fast=True, share=0.5, table="päris"):
                dashcam.event("cache.miss", key="k1")
        path = dashcam.snap("looked odd")
        assert path.name.startswith("billy-") and path.suffix == ".dashcam", path
        state = dashcam.status()
        assert state["on"] and state["captures"] == [str(path)], state
        dashcam.stop()
        assert dashcam.status()["on"] is False
        print(path)
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert [r["name"] for r in shown["requests"]] == ["GET /checkout"]
    assert shown["counts"]["spans"] == 1 and shown["counts"]["events"] == 1
    assert shown["meta"]["reason"] == "looked odd"
    assert shown["damage"] == []


def test_decorators_work_bare_and_named_on_plain_and_async_functions(bench: Bench) -> None:
    result = bench.python("""
        import asyncio, dashcam
        dashcam.start()
        @dashcam.span
        def plain(): return 1
        @dashcam.trace
        async def waiting():
            await asyncio.sleep(0)
            return 2
        @dashcam.request("job")
        def job(): return plain() + asyncio.run(waiting())
        assert job() == 3 and plain.__name__ == "plain"
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert shown["counts"]["spans"] == 2
    assert [r["name"] for r in shown["requests"]] == ["job"]


def test_asyncio_tasks_and_executors_keep_their_own_request(bench: Bench) -> None:
    result = bench.python("""
        import asyncio, dashcam
        from concurrent.futures import ThreadPoolExecutor
        from dashcam import _native
        dashcam.start()
        async def one(name):
            with dashcam.request(name) as request:
                await asyncio.sleep(0.01)
                assert _native.current_request() == request.id
                await asyncio.sleep(0.01)
                assert _native.current_request() == request.id
        async def both(): await asyncio.gather(*(one(f"r{i}") for i in range(20)))
        asyncio.run(both())
        assert _native.current_request() == 0
        with ThreadPoolExecutor(2) as pool, dashcam.request("outer") as request:
            assert pool.submit(_native.current_request).result() == request.id
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert len(shown["requests"]) == 21 and shown["counts"]["tasks"] == 1


def test_a_request_that_still_runs_is_in_the_capture(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        dashcam.start()
        with dashcam.request("endless"):
            print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    assert bench.show(result.stdout.strip().splitlines()[-1])["open_requests"] == 1


def test_collections_are_recorded(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, gc
        dashcam.start()
        gc.collect()
        print(dashcam.snap())
    """)
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    assert shown["counts"]["gcs"] >= 1


def test_everything_is_off_before_start_and_when_turned_off(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        with dashcam.request("r"), dashcam.span("s"): dashcam.event("e")
        assert dashcam.start() is False
        try:
            dashcam.snap()
        except OSError as error:
            assert "not recording" in str(error)
        else:
            raise AssertionError("snap without a recorder")
        assert dashcam.status()["on"] is False
    """, DASHCAM_ENABLED="no")
    assert result.returncode == 0, result.stderr


def test_work_that_still_runs_on_another_thread_is_recorded_once(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, threading, time
        from concurrent.futures import ThreadPoolExecutor
        dashcam.start()
        begun, go = threading.Event(), threading.Event()
        def work(request, queued_ns, fn=None):  # names of ours do not collide with theirs
            begun.set()
            go.wait(20)
            return request + queued_ns
        with ThreadPoolExecutor(1) as pool, dashcam.request("long"):
            future = pool.submit(work, request=1, queued_ns=2)
            begun.wait(20)
            print(dashcam.snap("during"))
            go.set()
            assert future.result() == 3
        print(dashcam.snap("after"))
    """)
    assert result.returncode == 0, result.stderr
    during, after = (bench.show(path) for path in result.stdout.split())
    assert during["open_requests"] == 1 and during["counts"]["tasks"] == 1
    assert after["open_requests"] == 0 and after["counts"]["tasks"] == 1
