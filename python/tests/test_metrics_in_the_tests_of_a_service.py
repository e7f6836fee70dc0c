"""`dashcam.testing.metrics` reports what a block counted, all of it and nothing else."""

from __future__ import annotations

from conftest import Bench


def test_a_block_gets_its_own_counts(bench: Bench) -> None:
    result = bench.python("""
        import os, threading
        import dashcam
        from dashcam import testing

        try:
            with testing.metrics():
                raise AssertionError("nothing is recorded")
        except RuntimeError as error:
            assert "wanted dashcam.start" in str(error), error
        dashcam.start(memory="1MiB", slow="1h", at_exit="never")
        dashcam.count("orders", 100, tags={"shop": "a"})
        dashcam.gauge("depth", 3)
        with testing.metrics() as counted:
            assert counted.names() == set(), "known at the end only"
            threads = [threading.Thread(target=dashcam.count, args=("orders", n), kwargs={"tags": {"shop": shop}})
                       for n, shop in ((1, "a"), (2, "a"), (4, "b"))]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            dashcam.timing("db.query", 2)
            dashcam.timing("db.query", 3.5)
            dashcam.set("users", "ann")
            dashcam.gauge("depth", 7)
        dashcam.count("orders", 1000)
        assert counted.names() == {"orders", "db.query", "users", "depth"}, counted.series
        assert counted.total("orders") == 7 and counted.total("orders", tags={"shop": "a"}) == 3
        assert counted.total("orders", tags={}) == 0 and counted.total("no such") == 0
        assert (counted.total("db.query"), counted.sum("db.query")) == (2, 5.5)
        assert (counted.total("users"), counted.last("depth"), counted.last("no such")) == (1, 7, None)
        with testing.metrics() as counted:
            dashcam.gauge_add("depth", -2)
        assert counted.names() == {"depth"}, "nothing of before"
        assert counted.last("depth") == -2, "by how much, where it was not set"
        assert not [n for n in os.listdir("captures") if n.endswith(".dashcam")], "the captures are removed"
        print("reported")
    """)
    assert (result.returncode, result.stdout) == (0, "reported\n"), result.stderr
