"""What metrics refuse: wrong types raise, other values are counted as refused; off and absent they
do nothing.
"""

from __future__ import annotations

from conftest import Bench


def test_wrong_types_are_reported_by_thing_found_and_wanted(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        from dashcam import metric
        def refused(kind, text, call, *args, **more):
            try:
                call(*args, **more)
            except kind as error:
                assert str(error) == text, str(error)
            else:
                raise AssertionError(text)
        number = "wanted int or float"
        refused(TypeError, "count: name: found int, wanted str", dashcam.count, 5)
        refused(TypeError, f"orders: n: found str, {number}", dashcam.count, "orders", "1")
        refused(TypeError, f"orders: n: found NoneType, {number}", dashcam.counter("orders").inc, None)
        refused(TypeError, f"depth: value: found str, {number}", dashcam.gauge, "depth", "x")
        refused(TypeError, "timing() misses its argument 'ms'", dashcam.timing, "db")
        refused(TypeError, "count() misses its argument 'name'", dashcam.count)
        refused(TypeError, "count() got an unexpected keyword argument 'tag'", dashcam.count, "a", tag={})
        refused(TypeError, "count() got an argument twice", dashcam.count, "a", name="b")
        refused(TypeError, "count() takes at most 2 positional arguments", dashcam.count, "a", 1, {})
        refused(TypeError, "count: tags: found list, wanted a dict", dashcam.count, "a", tags=["x"])
        refused(ValueError, "count: rate: found 2, wanted above 0 and at most 1", dashcam.count, "a", rate=2)
        refused(ValueError, "counter: rate: found NaN, wanted above 0 and at most 1",
                dashcam.counter, "a", rate=float("nan"))
        refused(TypeError, "record() takes one argument, 'ms'", metric.timing("db").record, value=1)
        refused(TypeError, "inc() takes one argument, 'n'", dashcam.counter("orders").inc, 1, 2)
        type(dashcam.counter("orders"))                    # its type, called, is a handle of nothing
        class Text(str): pass
        dashcam.count(Text("orders"))
    """)
    assert result.returncode == 0, result.stderr


def test_what_is_refused_is_counted_and_nothing_grows(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        dashcam.start()
        known, took = dashcam.counter("known"), dashcam.metric.timing("db")
        for n in range(150): dashcam.count("many", tags={"user": n})
        for bad in (float("nan"), float("inf"), 10**400):
            known.inc(bad)
            took.record(bad)
        late = dashcam.counter("late")
        late.inc(); late.inc()
        dashcam.count("")
        state = dashcam.status()["metrics"]
        assert state["series"] == 100, state
        print(dashcam.snap())
    """, DASHCAM_METRICS_SERIES="100")
    assert result.returncode == 0, result.stderr
    shown = bench.show(result.stdout.strip().splitlines()[-1])
    theirs = [metric for metric in shown["metrics"] if not metric["name"].startswith("dashcam.")]
    assert len(theirs) == 98, "the others have no values"
    assert shown["meta"]["losses"]["metrics_refused"] == 52 + 2 + 1
    assert shown["meta"]["losses"]["metric_values_refused"] == 6
    assert shown["meta"]["settings"]["metrics_series"] == 100, shown["meta"]["settings"]


def test_off_it_counts_nothing_and_costs_nothing(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        from dashcam import metric
        early = dashcam.counter("orders")
        assert dashcam.start() is False
        early.inc(); dashcam.count("orders"); dashcam.timing("db", 1); dashcam.set("users", "ann")
        with metric.timed("block"): pass
        dashcam.counter("later").inc(5)
        assert dashcam.flush() is False
        assert dashcam.status()["on"] is False
    """, DASHCAM_ENABLED="0")
    assert (result.returncode, result.stderr) == (0, "")


def test_without_the_native_module_everything_is_callable(bench: Bench) -> None:
    result = bench.python("""
        import sys
        sys.modules["dashcam._native"] = None
        import dashcam
        from dashcam import metric
        dashcam.count("orders", 2, tags={"a": 1}, rate=0.5)
        dashcam.counter("orders").inc()
        dashcam.gauge("depth", 1); dashcam.gauge_add("depth", 1); dashcam.timing("db", 1)
        dashcam.histogram("h", 1); dashcam.distribution("d", 1); dashcam.set("s", "m")
        metric.gauge("depth").set(1); metric.gauge("depth").add(1); metric.set("s").add("m")
        metric.timing("db").record(1); metric.histogram("h").record(1)
        with metric.timed("block"): pass
        assert dashcam.flush() is False
    """)
    assert result.returncode == 0, result.stderr
