"""Consumers of Kafka: what a program does with a message is a request, which ends when it asks for the next one, or
with what had the message. The brokers are librdkafka's own, inside of the producer: they speak the protocol over
sockets, and no message is lost or late."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import Bench

pytest.importorskip("confluent_kafka")

BROKER = """
import confluent_kafka
from confluent_kafka import Producer
_producer = Producer({"test.mock.num.brokers": "1", "log_level": "0"})
[_broker] = _producer.list_topics(timeout=60).brokers.values()
servers = f"{_broker.host}:{_broker.port}"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
def send(topic, count, **headers):
    for i in range(count):
        _producer.produce(topic, b"%d" % i, partition=0, headers=headers)
    assert _producer.flush(60) == 0
def consumer(topic, base=confluent_kafka.Consumer, **more):
    it = base({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest",
               "enable.auto.commit": False, "log_level": "0"} | more)
    it.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return it
def requests():
    import pyarrow, dashcam
    status = dashcam.status()
    assert status["integrations"] == [], status
    tables = dashcam.open(dashcam.snap()).tables
    names = [request["name"] for request in pyarrow.table(tables["requests"]).to_pylist()]
    parents = {trace["trace_id"] for trace in pyarrow.table(tables["traces"]).to_pylist() if trace["parent_span_id"]}
    print({name: names.count(name) for name in names}, status["open_requests"], "open", *parents)
"""


def recorded(bench: Bench, program: str) -> str:
    """What `requests` of the broker's module printed."""
    bench.write("broker.py", BROKER)
    path: Path = bench.folder / "program.py"
    path.write_text("import dashcam; assert dashcam.start(slow='90s')\n" + program, encoding="utf-8")
    result = bench.run([sys.executable, str(path)])
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_message_of_confluent_kafka_ends_with_the_next_call(bench: Bench) -> None:
    found = recorded(bench, """
import broker, dashcam
broker.send("orders", 3, traceparent=broker.PARENT)
it = broker.consumer("orders")
seen = []
while len(seen) < 3:
    message = it.poll(60)
    assert dashcam.status()["open_requests"] == 1
    seen.append(message.value())
    assert (message.topic(), message.error()) == ("orders", None)
assert it.poll(0) is None and dashcam.status()["open_requests"] == 0
assert seen == [b"0", b"1", b"2"]
broker.send("bills", 4)
it.assign([broker.confluent_kafka.TopicPartition("bills", 0, 0)])
assert len(it.consume(4, 60)) == 4
it.close()
assert dashcam.status()["open_requests"] == 0
with dashcam.request("own"):
    other = broker.consumer("bills")
    assert other.poll(60).topic() == "bills"
    other.close()
broker.requests()
""")
    assert found == "{'kafka orders': 3, 'kafka bills': 1, 'own': 1} 0 open 0af7651916cd43dd8448eb211c80319c"


def test_who_waits_for_a_message_of_an_executor_has_no_request(bench: Bench) -> None:
    found = recorded(bench, """
import asyncio, broker, dashcam, functools
from concurrent.futures import ThreadPoolExecutor
from confluent_kafka import DeserializingConsumer
broker.send("orders", 8)
async def main():
    loop, it = asyncio.get_running_loop(), broker.consumer("orders", DeserializingConsumer)
    for poll in (functools.partial(it.poll, 60), lambda: it.poll(60)):
        message = await loop.run_in_executor(None, poll)
        assert message.topic() == "orders" and dashcam.status()["open_requests"] == 0
    it.close()
asyncio.run(main())
def loop_of_one():
    it = broker.consumer("orders")
    for _ in range(3):
        assert it.poll(60).topic() == "orders"
    raise LookupError("left in the middle of a message")
with ThreadPoolExecutor(1) as pool:
    work = pool.submit(loop_of_one)
    assert isinstance(work.exception(), LookupError)
    pool.submit(int).result()
    assert dashcam.status()["open_requests"] == 0
broker.requests()
""")
    assert found == "{'kafka orders': 3} 0 open"


def test_executors_are_not_imported_for_it(bench: Bench) -> None:
    result = bench.python("import dashcam, sys; dashcam.start(); print([name for name in sys.modules if 'concurrent' in name])")
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr


def test_a_thread_that_dies_of_its_message_ends_it(bench: Bench) -> None:
    found = recorded(bench, """
import broker, dashcam, threading
broker.send("orders", 1)
it = broker.consumer("orders")
def handles():
    it.poll(60)
    raise LookupError
threading.excepthook = lambda args: None
thread = threading.Thread(target=handles)
thread.start(); thread.join()
assert dashcam.status()["open_requests"] == 0
# A thread that has no frame of Python's below the call.
import _thread
broker.send("orders", 1)
_thread.start_new_thread(it.poll, (60,))
while dashcam.status()["requests"] < 2: pass
while dashcam.status()["open_requests"]: pass
it.close()
broker.requests()
""")
    assert found == "{'kafka orders': 2} 0 open"


def test_aiokafka(bench: Bench) -> None:
    pytest.importorskip("aiokafka")
    found = recorded(bench, """
import asyncio, broker, dashcam
from aiokafka import AIOKafkaConsumer, TopicPartition
broker.send("orders", 3, traceparent=broker.PARENT)
broker.send("bills", 1)  # Of more, a batch may have some.
async def main():
    it = AIOKafkaConsumer(bootstrap_servers=broker.servers, group_id=None, auto_offset_reset="earliest")
    await it.start()
    it.assign([TopicPartition("orders", 0)])
    await it.seek_to_beginning()
    count = 0
    async for message in it:
        await asyncio.sleep(0)
        assert dashcam.status()["open_requests"] == 1
        count += 1
        if count == 3: break
    it.assign([TopicPartition("bills", 0)])
    await it.seek_to_beginning()
    [[message]] = (await it.getmany(timeout_ms=60_000)).values()
    assert (message.topic, dashcam.status()["open_requests"]) == ("bills", 1)
    await it.stop()
    assert dashcam.status()["open_requests"] == 0
asyncio.run(main())
broker.requests()
""")
    assert found == "{'kafka orders': 3, 'kafka bills': 1} 0 open 0af7651916cd43dd8448eb211c80319c"


def test_kafka_python(bench: Bench) -> None:
    pytest.importorskip("kafka")
    found = recorded(bench, """
import broker, dashcam
from kafka import KafkaConsumer, TopicPartition
broker.send("orders", 3, traceparent=broker.PARENT)
broker.send("bills", 1)  # Of more, a batch may have some.
it = KafkaConsumer(bootstrap_servers=broker.servers, group_id=None, auto_offset_reset="earliest", api_version=(2, 0))
it.assign([TopicPartition("orders", 0)])
for count, message in enumerate(it):
    assert (message.topic, dashcam.status()["open_requests"]) == ("orders", 1)
    if count == 2: break
it.assign([TopicPartition("bills", 0)])
[[message]] = it.poll(60_000).values()
assert (message.topic, dashcam.status()["open_requests"]) == ("bills", 1)
it.close()
assert dashcam.status()["open_requests"] == 0
broker.requests()
""")
    assert found == "{'kafka orders': 3, 'kafka bills': 1} 0 open 0af7651916cd43dd8448eb211c80319c"
