"""`from dashcam.compat import statsd` sends a server the same as PyPI's `statsd`, and has its
API.
"""

from __future__ import annotations

from pathlib import Path

import statsd as real
from compat_doors import misses, names, run
from conftest import Bench
from dashcam.compat import statsd as ours

PROGRAM = """
from decimal import Decimal
import asyncio, datetime, functools, sys
if sys.argv[1] == "real":
    import statsd
else:
    import dashcam
    from dashcam.compat import statsd
    dashcam.start(service="till")

client = statsd.StatsClient("127.0.0.1", int(sys.argv[2]), prefix="shop")
for n in range(100):
    n % 5 or pace()
    client.incr("orders")
    client.incr("orders", 3)
    client.decr("orders", 2)
client.incr("kinds", Decimal("2.5"))
client.incr("kinds", "1")
client.incr("half", 0.5)
client.gauge("depth", 7)
client.gauge("depth", 5, delta=True)
client.gauge("depth", -2, delta=True)
client.gauge("cold", -4)
client.timing("answer", 12.5)
client.timing("answer", datetime.timedelta(seconds=2))
for user in ("ann", "bob", "ann", 7):
    client.set("users", user)
for n in range(4000):
    n % 20 or pace()
    client.incr("sampled", rate=0.5)
client.incr("never", rate=0)
client.incr("always", rate=2)
with client.pipeline() as pipe:
    pipe.incr("piped", 4)
    pipe.decr("piped")
    with pipe.pipeline() as inner:
        inner.incr("inner", 2)
    pipe.timing("piped.answer", 3)
unsent = client.pipeline()
unsent.incr("unsent")

@client.timer("timed")
def work(n):
    return n + 1
assert work(1) == 2 and work.__name__ == "work"
partial = client.timer("timed")(functools.partial(work, 2))
assert partial() == 3
@client.timer("timed.async")
async def wait():
    await asyncio.sleep(0.02)
    return 5
assert asyncio.run(wait()) == 5
with client.timer("timed.block") as timer:
    pass
assert timer.ms >= 0
timer = client.timer("timed.later").start()
timer.stop(send=False)
timer.send()
try:
    with client.timer("timed.raises"):
        1 / 0
except ZeroDivisionError:
    pass
bare = statsd.StatsClient("127.0.0.1", int(sys.argv[2]))
bare.incr("bare")
client.close()
if sys.argv[1] == "ours":
    while not dashcam.flush():  # it gives up after two seconds
        pass
    from dashcam import compat
    assert compat.refused() == {}
"""


def test_the_server_gets_the_same(tmp_path: Path) -> None:
    wanted, _ = run(tmp_path, PROGRAM, real=True)
    found, said = run(tmp_path, PROGRAM, real=False, DASHCAM_STATSD_DIALECT="statsd")
    assert said == ""
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        if ".timed" in key:
            assert len(found[key]) == len(value), key
        elif ".sampled" in key:
            # 9 standard deviations of the draw on either side.
            assert 3_400 < found[key] < 4_600 and 3_400 < value < 4_600
        else:
            assert found[key] == value, key
    assert found["shop.orders|c|"] == 200
    assert found["shop.depth|g|"] == 10
    assert found["shop.timed.async|ms|"][0] >= 20, "milliseconds"


def test_nothing_of_the_surface_is_missing() -> None:
    assert set(real.__all__) <= set(ours.__all__)
    assert names(real) - names(ours) == set() and ours.VERSION == real.VERSION
    for name in real.__all__:
        assert misses(getattr(ours, name), getattr(real, name)) == []
    theirs = real.StatsClient("127.0.0.1", 9)
    assert misses(type(ours.StatsClient().pipeline()), type(theirs.pipeline())) == []
    assert misses(type(ours.StatsClient().timer("t")), type(theirs.timer("t"))) == []
    theirs.close()


WRONG = """
from dashcam import compat
from dashcam.compat import statsd
import dashcam
dashcam.start()
client = statsd.StatsClient("no such host", "no port")
class Bad:
    def __str__(self):
        raise KeyError("bad")
client.incr("a", "many")
client.decr("a", "many")
client.incr(7)
client.set("users", Bad())
client.timing("t", None)
client.incr("a", rate="often")
client.timer("t").stop()
timer = client.timer("t")
timer.send()
timer.start().stop()
timer.send()
class Worse(Bad):
    __repr__ = Bad.__str__
client.incr(Worse(), Worse())
client.decr("a", Worse())
client.incr("a", 2)
assert compat.refused() == {"value": 8, "misuse": 3}, compat.refused()
print("went on")
"""


def test_wrong_calls_are_counted_and_raise_nothing(bench: Bench) -> None:
    done = bench.python(WRONG, DASHCAM_OUT=str(bench.folder), DASHCAM_STATSD="")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "went on\n"
    lines = done.stderr.splitlines()
    assert len(lines) == 3, "the server, and one line for each reason"
    assert "DASHCAM_STATSD=udp://no such host:no port" in lines[0]


SERVERS = """
from dashcam.compat import statsd
for _ in range(3):
    statsd.StatsClient({given})
"""


def test_a_server_that_the_code_names_is_reported_once(bench: Bench) -> None:
    def said(given: str, target: str) -> "list[str]":
        done = bench.python(SERVERS.format(given=given), DASHCAM_STATSD=target)
        return done.stderr.splitlines()

    assert said("'a.example'", "udp://a.example:8125") == []
    assert said("", "udp://a.example:8125") == []
    elsewhere = said("'b.example', 99", "udp://a.example:8125")
    assert len(elsewhere) == 1
    assert "udp://b.example:99 go to udp://a.example:8125" in elsewhere[0]
    nowhere = said("", "")
    assert len(nowhere) == 1
    assert "set DASHCAM_STATSD=udp://localhost:8125" in nowhere[0]


def test_a_pipeline_keeps_no_more_than_its_bound(bench: Bench) -> None:
    done = bench.python("""
        from dashcam.compat import statsd
        pipe = statsd.StatsClient().pipeline()
        for _ in range(25_000):
            pipe.incr("n")
        assert len(pipe._kept) == 5_000
    """)
    assert done.returncode == 0, done.stderr
