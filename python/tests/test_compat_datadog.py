"""`from dashcam.compat.datadog import statsd` sends a server the same as `datadog`, and has its
API.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import datadog as real
import pytest
from compat_doors import misses, names, run
from conftest import Bench
from dashcam.compat import datadog as ours

PROGRAM = """
from decimal import Decimal
import asyncio, sys
if sys.argv[1] == "real":
    from datadog import initialize, statsd, DogStatsd
    statsd.disable_telemetry()
else:
    import dashcam
    from dashcam.compat.datadog import initialize, statsd, DogStatsd
    dashcam.start(service="till")

port = int(sys.argv[2])
initialize(statsd_host="127.0.0.1", statsd_port=port, statsd_namespace="shop",
           statsd_constant_tags=["env:test", "blue"])
for n in range(100):
    n % 5 or pace()
    statsd.increment("orders")
    statsd.increment("orders", 3, tags=["region:eu", "express"])
    statsd.decrement("orders", 2, tags=["region:eu", "express"])
    statsd.count("bytes", 512)
statsd.increment("kinds", Decimal("2.5"))
statsd.decrement("kinds", 1.0)
statsd.gauge("depth", 7)
statsd.gauge("depth", 9.5)
statsd.gauge("nothing", None)
for n in range(50):
    n % 5 or pace()
    statsd.histogram("size", n, tags=["kind:a"])
    statsd.distribution("size.all", n * 2)
    statsd.timing("answer", n + 0.5)
for user in ("ann", "bob", "ann", 7):
    statsd.set("users", user)
for n in range(4000):
    n % 20 or pace()
    statsd.increment("sampled", sample_rate=0.5)
with statsd.timed("block", use_ms=True):
    pass
@statsd.timed("decorated", tags=["f:work"])
def work(n):
    return n + 1
assert work(1) == 2 and work.__name__ == "work"
@statsd.distributed("distributed")
async def wait():
    await asyncio.sleep(0.02)
    return 5
assert asyncio.run(wait()) == 5
@statsd.timed()
def unnamed():
    pass
unnamed()
statsd.open_buffer()
statsd.increment("buffered")
statsd.close_buffer()
with statsd:
    statsd.increment("buffered", 2)
statsd.constant_tags.append("late:yes")
statsd.increment("late")
statsd.event("deployed", "v2\\nall well", alert_type="success", aggregation_key="k", priority="low",
             source_type_name="ci", date_happened=1700000000, hostname="web", tags=["who:me"])
statsd.service_check("db", DogStatsd.CRITICAL, tags=["db:a"], timestamp=1700000000, hostname="web",
                     message="gone")
own = DogStatsd("127.0.0.1", port, constant_tags=["own:1"], disable_telemetry=True,
                default_sample_rate=1)
own.increment("of.its.own")
plain = DogStatsd("127.0.0.1", port, disable_telemetry=True)
plain.increment("plain", 5)
statsd.flush()
if sys.argv[1] == "ours":
    from dashcam import compat
    assert compat.refused() == {}, compat.refused()
    assert (statsd.packets_dropped, statsd.bytes_dropped) == (0, 0)
"""


def test_the_server_gets_the_same(tmp_path: Path) -> None:
    wanted, _ = run(tmp_path, PROGRAM, real=True)
    found, said = run(tmp_path, PROGRAM, real=False)
    assert said == ""
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        if key.split("|")[0] in ("shop.block", "shop.decorated", "shop.distributed", "shop.__main__.unnamed"):
            assert len(found[key]) == len(value), key
        elif key.startswith("shop.sampled"):
            # 9 standard deviations of the draw on either side.
            assert 3_400 < found[key] < 4_600 and 3_400 < value < 4_600
        elif key == "marks":
            assert sorted(map(fields, found[key])) == sorted(map(fields, value))
        else:
            assert found[key] == value, key
    assert found["shop.orders|c|blue,env:test,express,region:eu"] == 100
    assert 0.02 <= found["shop.distributed|d|blue,env:test"][0] < 2, "seconds, as the client"


def fields(line: str) -> "list[str]":
    """An event or check without the order of its fields and tags."""
    parts = line.split("|")
    return sorted("#" + ",".join(sorted(p[1:].split(","))) if p[0] == "#" else p for p in parts)


def test_nothing_of_the_surface_is_missing() -> None:
    # Listed in docs/metrics.md as missing; the rest are imports of the module for itself.
    absent = {"lambda_metric", "datadog_lambda_wrapper"}
    assert names(real) - names(ours) == absent | {
        "List", "NullHandler", "Optional", "get_hostname", "iteritems", "text"}
    assert (ours.DEFAULT_HOST, ours.DEFAULT_PORT) == (real.DEFAULT_HOST, real.DEFAULT_PORT)
    # Properties there, plain attributes here: checked below.
    plain = ("constant_tags", "disable_buffering", "socket_path")
    assert misses(ours.DogStatsd, real.DogStatsd, plain) == []
    wanted, found = (
        [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (real.initialize, ours.initialize))
    assert found == wanted
    for name in ("host", "port", "namespace", "constant_tags", "use_ms", "default_sample_rate",
                 "cardinality", "socket_path", "disable_buffering"):
        assert hasattr(real.statsd, name) and hasattr(ours.statsd, name), name
    theirs = real.statsd.timed("t")
    assert misses(type(ours.statsd.timed("t")), type(theirs)) == []
    assert misses(ours.ThreadStats, real.ThreadStats) == []
    # Each resource exists, if only to give the reason why it sends nothing.
    resources = {n for n, value in vars(real.api).items() if inspect.isclass(value)}
    assert [n for n in sorted(resources) if not hasattr(ours.api, n)] == []
    assert not hasattr(ours.api, "NoSuchResource")
    for resource, method in (("Event", "create"), ("Metric", "send"), ("Distribution", "send")):
        theirs, mine = (getattr(getattr(api, resource), method) for api in (real.api, ours.api))
        assert list(inspect.signature(mine).parameters) == list(inspect.signature(theirs).parameters)


OTHERS = """
import time
import dashcam
from dashcam import compat
from dashcam.compat.datadog import ThreadStats, api, initialize, statsd
from dashcam.compat.datadog.threadstats import ThreadStats as again
assert again is ThreadStats
dashcam.start(service="till")
initialize(api_key="k", app_key="a", statsd_namespace="shop", statsd_constant_tags=["env:test"], mute=False)
assert (api._api_key, api._application_key, api._mute) == ("k", "a", False)

stats = ThreadStats(namespace="jobs", constant_tags=["crew:a"])
stats.increment("lost")
stats.start(flush_interval=1, roll_up_interval=1)
for n in range(5):
    stats.increment("done", tags=["kind:b"], timestamp=time.time(), sample_rate=0.01)
stats.decrement("done", 2, tags=["kind:b"], host="web")
stats.gauge("depth", 7)
stats.histogram("size", 3)
stats.distribution("size.all", 4)
stats.timing("took", 0.25)
stats.set("users", "ann")
with stats.timer("block"):
    pass
@stats.timed("call", tags=["f:work"])
def work(n):
    return n + 1
assert work(1) == 2 and work.__name__ == "work"
stats.event("deployed", "v2", tags=["who:me"])
stats.gauge("late", 1, timestamp=1000)
stats.stop()

now = time.time()
answers = [
    api.Metric.send(metric="sent", points=5),
    api.Metric.send(metric="sent.count", points=[(now, 2), (now, 3)], type="count", tags=["a:b"], host="web"),
    api.Metric.send(metrics=[{"metric": "one", "points": (now, 1.5)}, {"metric": "two", "points": [1, 2]}]),
    api.Distribution.send(metric="spread", points=[(now, [1, 2.5])]),
    api.Event.create(title="said", text="by api", alert_type="error", tags=["x:y"]),
    api.ServiceCheck.check(check="db", status=0, host_name="web", message="fine"),
]
assert answers == [{"status": "ok"}] * 6, answers
refused = [
    api.Metric.send(metric="rate", points=1, type="rate"),
    api.Metric.send(points=1),
    api.Metric.send(metric="none"),
    api.Metric.send(metrics=7),
    api.Event.create(text="no title"),
    api.Event.create(title="t", alert_type="loud"),
    api.ServiceCheck.check(status=1),
    api.ServiceCheck.check(check="db", status=9),
    api.Metric.query(start=0, end=1, query="avg:x{*}"),
    api.Monitor.create(type="metric alert"),
    api.Hosts.search(),
]
assert all(list(answer) == ["errors"] for answer in refused), refused
assert "wanted Event.create" in refused[-1]["errors"][0] and "Hosts.search" in refused[-1]["errors"][0]
quiet = ThreadStats()
quiet.start(disabled=True)
quiet.increment("not.counted")
assert quiet.flush() is False and stats.flush() is None
assert compat.refused() == {"misuse": 1, "timestamp": 1, "value": 8, "api": 3}, compat.refused()
statsd.flush()
"""


def test_threadstats_and_the_api_say_what_statsd_can_say(tmp_path: Path) -> None:
    found, said = run(tmp_path, OTHERS, real=False)
    assert said.count("only counted") == 4, said
    marks = found.pop("marks")
    assert [m.split("|")[0] for m in marks] == ["_e{8,2}:deployed", "_e{4,6}:said", "_sc"]
    assert "|#crew:a,who:me" in marks[0] and "|t:error|#x:y" in marks[1] and "|h:web" in marks[2]
    for key in [k for k in found if k.split("|")[0] in ("jobs.block", "jobs.call")]:
        assert len(found.pop(key)) == 1, key
    assert found == {
        "jobs.done|c|crew:a,kind:b": 5, "jobs.done|c|crew:a,host:web,kind:b": -2,
        "jobs.depth|g|crew:a": 7, "jobs.size|h|crew:a": [3], "jobs.size.all|d|crew:a": [4],
        "jobs.took|ms|crew:a": [0.25], "jobs.users|s|crew:a": ["ann"], "jobs.late|g|crew:a": 1,
        "sent|g|": 5, "sent.count|c|a:b,host:web": 5, "one|g|": 1.5, "two|g|": 2,
        "spread|d|": [1, 2.5]}


def test_words_for_off_name_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from dashcam.compat import _shared

    for name in (*_shared._TARGETS, *_shared._DD_TARGETS, "DD_DOGSTATSD_PORT", "DD_DOGSTATSD_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    for value, wanted in (("false", None), ("0", None), (" off ", None), ("  ", None), ("env", "agent:8125"),
                          ("udp://h:1", "udp://h:1")):
        monkeypatch.setenv("DASHCAM_STATSD", value)
        monkeypatch.setenv("DD_AGENT_HOST", "agent")
        assert _shared.target() == wanted, value


WRONG = """
import dashcam
from dashcam import compat
from dashcam.compat.datadog import DogStatsd, statsd
dashcam.start()
class Bad:
    def __str__(self):
        raise KeyError("bad")
statsd.increment("a", "many")
statsd.decrement("a", "many")
statsd.gauge(7, 7)
statsd.set("users", Bad())
statsd.increment("a", tags=[["list"]])
statsd.increment("a", sample_rate="often")
statsd.service_check("db", 9)
statsd.event("t", "m", alert_type="loud")
with statsd.timed():
    pass
statsd.timed("t").stop()
statsd.gauge_with_timestamp("g", 1, 1700000000)
statsd.count_with_timestamp("c", 1)
statsd.increment("b", tags=["k:1", "k:2"])
statsd.event("no", "server")
assert compat.refused() == {"value": 8, "misuse": 2, "timestamp": 1, "tags": 1, "mark": 1}, compat.refused()
class Worse(Bad):
    __repr__ = Bad.__str__
statsd.increment(Worse(), Worse())
statsd.decrement(Worse(), Worse())
statsd.event(Worse(), Worse())
statsd.timed(Worse()).stop()
statsd.increment("fine", sample_rate=0)
statsd.increment("fine", sample_rate=3)
print("went on")
print(dashcam.snap())
"""


def test_wrong_calls_are_counted_and_raise_nothing(bench: Bench) -> None:
    done = bench.python(WRONG, DASHCAM_OUT=str(bench.folder), DASHCAM_STATSD="")
    assert done.returncode == 0, done.stderr
    first, capture = done.stdout.splitlines()
    assert first == "went on"
    refusals = [line for line in done.stderr.splitlines() if "only counted" in line]
    assert len(refusals) == 5, "one line for each reason"
    assert "dashcam.compat.refused" in str(bench.show(capture)), "the box has the counter too"


def test_series_beyond_the_remembered_ones_still_count(bench: Bench) -> None:
    done = bench.python("""
        import dashcam
        from dashcam.compat import datadog
        datadog.dogstatsd._MOST = 3
        for n in range(10):
            datadog.statsd.increment("n", tags=[f"n:{n}"])
        assert len(datadog.statsd._known["count"]) == 3
        dashcam.start()
        while not dashcam.flush(): pass  # it gives up after two seconds
        print(dashcam.snap())
    """, DASHCAM_OUT=str(bench.folder))
    assert done.returncode == 0, done.stderr
    shown = str(bench.show(done.stdout.strip()))
    assert all(f"'{n}'" in shown for n in range(10))


FORK = """
import os, warnings
import dashcam
from dashcam.compat.datadog import statsd
warnings.simplefilter("ignore")  # of threads in a process that forks: they are ours
dashcam.start(service="till")
statsd.increment("n", 1, tags=["a:b"])
pid = os.fork()
if pid == 0:
    statsd.increment("n", 10, tags=["a:b"])
    statsd.flush()
    os._exit(0)
os.waitpid(pid, 0)
statsd.increment("n", 100, tags=["a:b"])
statsd.flush()
"""


def test_a_forked_child_counts_for_itself(tmp_path: Path) -> None:
    found, said = run(tmp_path, FORK, real=False)
    assert said == ""
    assert found["n|c|a:b"] == 111


def test_marks_are_refused_by_plain_statsd_and_counted(tmp_path: Path) -> None:
    program = """
import dashcam
from dashcam import compat
from dashcam.compat.datadog import statsd
dashcam.start()
statsd.event("title", "text")
statsd.service_check("db", 0)
statsd.increment("n")
statsd.flush()
assert compat.refused() == {"mark": 2}
assert dashcam.status()["statsd"]["dropped_lines"]["unsupported"] == 2
"""
    found, said = run(tmp_path, program, real=False, DASHCAM_STATSD_DIALECT="statsd")
    assert "the sink did not take it" in said
    assert "marks" not in found
    assert found["n|c|"] == 1
