"""A scraper finds every metric, in both text formats as the official parsers read them, and a port
that is in use does no harm."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics


# Scrapes itself, so that nothing depends on time; prints both texts and the status.
PROGRAM = r"""
import json, os, socket, sys, threading, time
import dashcam
from dashcam import metric

dashcam.start(out="captures", service="till", openmetrics=sys.argv[1], slow="1h")


def scrape(accept, path="/metrics"):
    for _ in range(12000):
        place = dashcam.status()["openmetrics"]["listening"]
        if place:
            break
        time.sleep(0.005)
    if place.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(place[5:])
    else:
        host, port = place.rsplit(":", 1)
        client = socket.create_connection((host, int(port)))
    client.sendall(f"GET {path} HTTP/1.1\r\nAccept: {accept}\r\n\r\n".encode())
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    client.close()
    return b"".join(parts).decode().split("\r\n\r\n", 1)


def flush():
    # It gives up after two seconds, which is not long on a busy machine.
    while not dashcam.flush():
        pass


def report(**more):
    flush()
    head, text = scrape("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    _, plain = scrape("text/plain")
    print(json.dumps({"head": head, "text": text, "plain": plain, "status": dashcam.status(), **more}))

"""

KINDS = PROGRAM + r"""
orders = dashcam.counter("orders", tags={"shop": 'a"b\\c\nd', "x.y": "ü"})
threads = [threading.Thread(target=lambda: [orders.inc() for _ in range(1000)]) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
flush()
orders.inc(0.5)
dashcam.gauge("queue.depth", 7)
dashcam.gauge_add("queue.depth", -2)
for ms in (1, 2, 400):
    dashcam.timing("db.query", ms)
for size in (3, 30, 3e12):
    dashcam.distribution("size", size)
dashcam.set("users", "ann"), dashcam.set("users", "bob")
dashcam.count("queue_depth")       # the gauge has that name already, or gets it later
for name in ("GET /", "GET /", 'POST "/x"'):
    with dashcam.request(name):
        pass
report()
"""


def reported(bench, code, *words, **env):
    program = bench.write("program.py", code)
    result = bench.run([sys.executable, str(program), *words], **env)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def values(families):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def test_every_kind_is_read_by_the_official_parsers(bench):
    [found], _ = reported(bench, KINDS, "127.0.0.1:0")
    assert "application/openmetrics-text; version=1.0.0" in found["head"]
    families = list(openmetrics.text_string_to_metric_families(found["text"]))
    seen = values(families)
    labels = (("shop", 'a"b\\c\nd'), ("x_y", "ü"))
    assert seen["orders_total", labels] == 4000.5
    assert seen["queue_depth", ()] == 5 or seen["queue_depth_total", ()] == 1
    status = found["status"]["openmetrics"]
    assert status["collisions"] == 1 and "queue" in status["last_collision"], status
    assert seen["db_query_seconds_count", ()] == 3 and seen["db_query_seconds_sum", ()] == 0.403
    assert seen["db_query_seconds_bucket", (("le", "0.0025"),)] == 2
    assert seen["db_query_seconds_bucket", (("le", "0.25"),)] == 2
    assert seen["db_query_seconds_bucket", (("le", "0.5"),)] == 3
    assert seen["size_bucket", (("le", "1000000000.0"),)] == 2 and seen["size_count", ()] == 3
    assert seen["users", ()] == 2
    assert seen["dashcam_request_seconds_count", (("name", "GET /"),)] == 2
    assert seen["dashcam_request_seconds_count", (("name", 'POST "/x"'),)] == 1
    by_name = {family.name: family for family in families}
    assert by_name["db_query_seconds"].unit == "seconds" and by_name["orders"].type == "counter"
    samples = by_name["dashcam_request_seconds"].samples
    exemplars = [s.exemplar for s in samples if s.exemplar]
    assert exemplars and all(int(e.labels["request"]) > 0 and e.value < 60 for e in exemplars)
    # dashcam's own cost is there, too.
    assert seen["dashcam_sampler_budget_used", ()] >= 0
    assert seen["dashcam_requests_total", ()] == 3
    assert seen.get(("dashcam_sampler_passes_total", ()), 0) <= found["status"]["sampler"]["passes"]
    plain = values(parser.text_string_to_metric_families(found["plain"]))
    for key in (("orders_total", labels), ("db_query_seconds_sum", ()), ("users", ())):
        assert plain[key] == seen[key]
    assert " # {" not in found["plain"] and found["text"].endswith("# EOF\n")


def test_an_exemplar_leads_to_its_request(bench):
    code = PROGRAM + r"""
for ms in (0, 60):
    with dashcam.request("GET /slow"):
        time.sleep(ms / 1e3)
path = dashcam.snap("look")
with dashcam.request("GET /later"):
    later = dashcam.trace_id()
with dashcam.request("GET /called") as called:
    header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert dashcam._native.request_continue(called.id, header)
report(capture=str(path), later=later)
"""
    [found], _ = reported(bench, code, "127.0.0.1:0")
    families = openmetrics.text_string_to_metric_families(found["text"])
    samples = [s for f in families if f.name == "dashcam_request_seconds" for s in f.samples]
    of_slow = [s.exemplar for s in samples if s.exemplar and s.labels.get("name") == "GET /slow"]
    worst = max(of_slow, key=lambda exemplar: exemplar.value)
    assert worst.value >= 0.06
    assert worst.labels["capture"] == Path(found["capture"]).name
    whole = bench.dashcam("show", found["capture"], "--request", worst.labels["request"], "--json")
    assert json.loads(whole.stdout)["trace_id"] == worst.labels["trace_id"]
    # No capture covers this request; it began its trace.
    [later] = [s.exemplar for s in samples if s.exemplar and s.labels.get("name") == "GET /later"]
    assert later.labels == {"trace_id": found["later"], "request": later.labels["request"]}
    # This request's caller began its trace.
    [called] = [s.exemplar for s in samples if s.exemplar and s.labels.get("name") == "GET /called"]
    assert called.labels["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    for exemplar in (worst, later, called):
        assert sum(len(k) + len(v) for k, v in exemplar.labels.items()) <= 128
    shown = bench.dashcam("show", found["capture"], "--request", worst.labels["request"])
    assert shown.returncode == 0 and shown.stdout.startswith("GET /slow: "), shown
    took = shown.stdout.split(": ")[1].split(",")[0]
    assert abs(float(took.split()[0].replace(",", "")) - worst.value * 1e3) < 1, took
    shown = bench.dashcam("show", found["capture"], "--request", "1")
    assert shown.returncode == 1 and "no request 1 in this capture" in shown.stderr


def test_a_port_that_is_taken_is_said_and_the_service_runs_on(bench):
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = "127.0.0.1:%d" % server.getsockname()[1]
        code = PROGRAM + r"""
for _ in range(12000):
    status = dashcam.status()
    if status["openmetrics"]["error"] and "openmetrics" in status["sources"]:
        break
    time.sleep(0.005)
dashcam.count("orders")
print(json.dumps({"status": status, "flushed": dashcam.flush()}))
"""
        [found], stderr = reported(bench, code, place)
    status = found["status"]
    assert status["openmetrics"]["error"].startswith(place + ": ") and found["flushed"]
    assert status["sources"]["openmetrics"].startswith("off: " + place)
    assert status["openmetrics"]["listening"] == ""
    assert stderr.count("dashcam: openmetrics: " + place) == 1, stderr


@pytest.mark.parametrize("place", ["range", "unix"])
def test_a_forked_child_has_a_place_and_counts_of_its_own(bench, place):
    code = PROGRAM + r"""
dashcam.count("orders", 5)
report()
sys.stdout.flush()
if os.fork() == 0:
    dashcam.count("orders", 2)
    report(child=True)
    sys.stdout.flush()
    dashcam.stop()
    os._exit(0)
os.wait()
dashcam.count("orders")
report()
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = min(server.getsockname()[1], 65000)
        words = {"range": f"127.0.0.1:{first}-{first + 100}", "unix": f"unix:{bench.folder}/m-{{pid}}"}
        [before, child, after], _ = reported(bench, code, words[place])
    counts = [values(openmetrics.text_string_to_metric_families(found["text"]))["orders_total", ()]
              for found in (before, child, after)]
    assert counts == [5, 2, 6]
    places = [found["status"]["openmetrics"]["listening"] for found in (before, child, after)]
    assert places[0] == places[2] != places[1], places
    assert not list(bench.folder.glob("m-*")), "removed at the end"


def test_a_wrong_address_is_refused(bench):
    result = bench.python("import dashcam\ndashcam.start(openmetrics='9464')")
    assert "openmetrics: found \"9464\", wanted an address and a port like 127.0.0.1:9464" in result.stderr
    program = bench.write("fine.py", "print('ran')")
    words = ["run", "--openmetrics", "host:1", "--", sys.executable, str(program)]
    result = bench.dashcam(*words)
    assert (result.returncode, result.stdout) == (2, ""), "a flag is refused"
    result = bench.dashcam("run", *words[3:], DASHCAM_OPENMETRICS="host:1")
    assert result.returncode == 0 and "ran" in result.stdout, "a variable is passed over"
    assert "DASHCAM_OPENMETRICS: found \"host:1\", wanted an address and a port" in result.stderr
