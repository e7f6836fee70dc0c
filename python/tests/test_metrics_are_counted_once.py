"""Values that Python counts are in the capture's windows, each once: threads, signals, forks,
exits.
"""

from __future__ import annotations

import json
from typing import Any

from conftest import Bench


def series(shown: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Windows by `kind name{tags}`."""
    found = {}
    for metric in shown["metrics"]:
        tags = ",".join(f"{key}={value}" for key, value in metric["tags"].items())
        found[f"{metric['kind']} {metric['name']}{{{tags}}}"] = metric["windows"]
    return found


def total(shown: dict[str, Any], name: str, what: str = "count") -> float:
    """Sum over all windows."""
    return float(sum(window[what] for window in series(shown)[name]))


def test_every_kind_is_in_the_capture_with_its_exact_numbers(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        from dashcam import metric
        dashcam.count("before", 3)                       # kept for the first window
        early = dashcam.counter("before")
        dashcam.start(service="billy")
        early.inc()
        orders = dashcam.counter("orders", tags={"region": "eu", "shop": 7})
        assert "orders{region=eu,shop=7}" in repr(orders), orders
        orders.inc(); orders.inc(2); orders.inc(n=3); orders.inc(-1); orders.inc(0.5)
        assert dashcam.counter("orders", tags={"region": "eu", "shop": 7}) is orders
        dashcam.count("orders", tags={"shop": "7", "region": "eu"})
        dashcam.count("orders", 10); dashcam.count("orders", n=5); dashcam.count(name="orders")
        dashcam.count("big", 2**53); dashcam.count("huge", 10**30)
        dashcam.gauge("depth", 7); dashcam.gauge_add("depth", -2)
        metric.gauge("level").add(1.5)
        for ms in range(1, 101): dashcam.timing("db", ms)
        metric.timing("db").record(ms=0.5)
        metric.histogram("size").record(2); dashcam.histogram("size", 4.0)
        metric.distribution("ratio").record(0.25); dashcam.distribution("ratio", True)
        for user in ("ann", "bob", "ann"): dashcam.set("users", user)
        metric.set("users").add("päivi")
        with metric.timed("block"), metric.timed("block"): pass
        @metric.timed("call", tags={"f": "g"})
        def g(): return 5
        assert g() == 5 and g.__name__ == "g"
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    path = result.stdout.strip().splitlines()[-1]
    shown = bench.show(path)
    assert shown["damage"] == []
    assert total(shown, "counter before{}") == 4
    assert total(shown, "counter orders{region=eu,shop=7}") == 6.5
    assert total(shown, "counter orders{}") == 16
    assert total(shown, "counter big{}") == 2**53
    assert total(shown, "counter huge{}") == 1e30
    found = series(shown)
    assert (found["gauge depth{}"][-1]["value"], found["gauge depth{}"][-1]["delta"]) == (5, False)
    assert (found["gauge level{}"][-1]["value"], found["gauge level{}"][-1]["delta"]) == (1.5, True)
    assert (total(shown, "timing db{}"), total(shown, "timing db{}", "sum")) == (101, 5050.5)
    assert {w["max"] for w in found["timing db{}"]} == {100}
    assert (total(shown, "histogram size{}"), total(shown, "histogram size{}", "sum")) == (2, 6)
    assert (total(shown, "distribution ratio{}", "sum")) == 1.25
    assert found["set users{}"][-1]["members"] == 3
    assert (total(shown, "timing block{}"), total(shown, "timing call{f=g}")) == (2, 1)
    text = bench.dashcam("show", path).stdout
    assert "counter      orders{region=eu,shop=7}  6.5 in 1 window" in text, text
    assert "timing       db  101 values, mean 50.005, 0.5 to 100, worst p99" in text, text


def test_threads_and_signal_handlers_count_exactly(bench: Bench) -> None:
    # The number of signals in a second depends on the machine's timers and on the GIL's holder: the
    # program continues until there were enough of them, and well within a capture's window. The
    # handler counts nothing once the sums are printed: a last signal may still be on its way. Its
    # own count is one call: up to CPython 3.10 a second signal may come in the middle of `signals
    # += 1`.
    result = bench.python("""
        import dashcam, json, signal, threading, time
        from dashcam import metric
        dashcam.start(slow="1h", window="5m")
        orders, took = dashcam.counter("orders"), metric.timing("took")
        signals, late, done = [], [], False
        def on_alarm(*_):
            if done:
                late.append(1)
                return
            signals.append(1)
            orders.inc(); took.record(1.0); dashcam.count("by_name"); dashcam.gauge_add("g", 1)
        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        def work():
            for _ in range(50_000):
                orders.inc(); took.record(2); dashcam.count("by_name", 2); dashcam.gauge_add("g", 1.0)
        rounds, end = 0, time.monotonic() + 45
        while rounds < 4 or (len(signals) < 50 and time.monotonic() < end):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for t in threads: t.start()
            work()
            for t in threads: t.join()
            rounds += 1
        done = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        path = str(dashcam.snap())
        print(json.dumps({"path": path, "signals": len(signals), "late": len(late), "rounds": rounds}))
    """)
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    reported = json.loads(result.stdout.splitlines()[-1])
    shown, extra, calls = bench.show(reported["path"]), reported["signals"], reported["rounds"] * 5 * 50_000
    # All values are reported at once: one sum alone does not show which lost what, or when.
    found = {key: total(shown, key, what) for key, what in [
        ("counter orders{}", "count"), ("counter by_name{}", "count"), ("timing took{}", "count"),
        ("gauge g{}", "value")]}
    found["took, sum"] = total(shown, "timing took{}", "sum")
    wanted = {"counter orders{}": calls + extra, "counter by_name{}": 2 * calls + extra,
              "timing took{}": calls + extra, "gauge g{}": calls + extra,
              "took, sum": 2 * calls + extra}
    windows = {name: all for name, all in series(shown).items() if not name.split()[1].startswith("dashcam.")}
    losses = {what: n for what, n in shown["meta"]["losses"].items() if n}
    about = (reported, windows, losses, shown["meta"]["books"], shown["damage"], result.stderr)
    assert found == wanted, about
    assert shown["meta"]["losses"]["metric_values_refused"] == 0, about
    assert extra >= 50, about


def test_a_forked_child_counts_its_own_and_nothing_of_its_parent(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, os
        dashcam.start(service="parent")
        orders = dashcam.counter("orders")
        orders.inc(100); dashcam.timing("took", 1); dashcam.count("other", 50)
        pid = os.fork()
        if pid == 0:
            orders.inc(7); dashcam.timing("took", 2); dashcam.count("own")
            print(dashcam.snap(), flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        orders.inc(1)
        print(dashcam.snap())
    """)
    assert result.returncode == 0, result.stderr
    child, parent = (bench.show(path) for path in result.stdout.split())
    assert total(child, "counter orders{}") == 7 and total(parent, "counter orders{}") == 101
    assert total(child, "timing took{}", "sum") == 2 and total(parent, "timing took{}", "sum") == 1
    assert "counter other{}" not in series(child) and "counter own{}" not in series(parent)


def test_a_fork_before_the_start_leaves_the_counts_with_the_parent(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, os
        dashcam.count("orders", 5)
        pid = os.fork()
        dashcam.count("orders", 2)
        dashcam.start(service="child" if pid == 0 else "parent")
        path = dashcam.snap()
        if pid == 0:
            print(path, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print(path)
    """)
    assert result.returncode == 0, result.stderr
    child, parent = (bench.show(path) for path in result.stdout.split())
    assert (total(child, "counter orders{}"), total(parent, "counter orders{}")) == (2, 7)


def test_counts_outlive_a_stop_and_windows_follow_each_other(bench: Bench) -> None:
    result = bench.python("""
        import dashcam, time
        dashcam.start(window="10m")
        while not dashcam.flush(): pass  # it gives up after two seconds
        windows = lambda: dashcam.status()["metrics"]["windows"]
        for _ in range(4):
            dashcam.count("orders")
            # The keeper takes one by itself, however late it gets a CPU.
            seen, end = windows(), time.monotonic() + 20
            while windows() == seen and time.monotonic() < end: time.sleep(0.02)
            assert windows() > seen, dashcam.status()
        dashcam.stop()
        assert dashcam.flush() is False
        dashcam.count("orders", 10)
        dashcam.start()
        print(dashcam.snap())
        assert dashcam.status()["metrics"]["windows"] >= 4, dashcam.status()["metrics"]
    """)
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    windows = series(shown)["counter orders{}"]
    assert sum(w["count"] for w in windows) == 14 and len(windows) >= 3, windows
    assert all(a["to_ns"] <= b["from_ns"] for a, b in zip(windows, windows[1:])), windows


def test_a_name_has_one_handle_whoever_makes_it_first(bench: Bench) -> None:
    """Calls by name use the handle of a name without a reference of their own: it is never
    replaced, and no code of a name's own runs between looking it up and entering it."""
    result = bench.python("""
        import dashcam
        asked = []
        class Name(str):
            def __hash__(self):
                asked.append(dashcam.counter("orders"))
                return str.__hash__(self)
        first = dashcam.counter(Name("orders"))
        assert asked == [] and first is dashcam.counter(Name("orders")) is dashcam.counter("orders"), asked
    """)
    assert result.returncode == 0, result.stderr
