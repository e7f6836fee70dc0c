"""Kafka's consumers (confluent-kafka, kafka-python, aiokafka): what a program does with a message, or
with several that one call returned, is a request named `kafka TOPIC`.

It begins when the consumer returns the message, and ends with the next call of any consumer in the
same thread or task: then the program is ready for the next message. The last one ends with the
consumer, the thread, the task, or the work item of an executor that had it. Whether a request
failed is not known: an exception leaves the program's loop, not the consumer.

Missing on purpose: a message that an executor fetches for a task (`run_in_executor`, AIOConsumer of
confluent-kafka), since nothing shows which task gets it; ShareConsumer.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Iterable

from dashcam._integrations import incoming

# The request of the message that this thread or task has. One that is dropped has ended: with the context of a
# thread or a task that is no more.
_request: ContextVar[Any] = ContextVar("dashcam_kafka", default=None)


# The headers that are read.
_TRACE = ("traceparent", "tracestate")
# What ends the request, once a module of consumers was imported.
_end_request: list[Any] = []


def patch_confluent(native: Any, module: ModuleType) -> None:
    """Hooks the methods of `Consumer`, which is written in C; classes that derive from it call them."""

    def after_one(message: Any, *args: Any, **kwargs: Any) -> None:
        if message is not None and message.error() is None:
            begin(message)

    def after_many(messages: Any, *args: Any, **kwargs: Any) -> None:
        for message in messages:
            if message.error() is None:
                return begin(message)

    def begin(message: Any) -> None:
        if not _is_for_a_task(sys._getframe(1).f_back):
            _begin(native, message.topic(), message.headers() or ())

    end = _end(native)
    native.hook(module.Consumer, "poll", before=end, after=after_one)
    native.hook(module.Consumer, "consume", before=end, after=after_many)
    native.hook(module.Consumer, "close", before=end)


def patch_kafka_python(native: Any, module: ModuleType) -> None:
    """Hooks `KafkaConsumer`; its iterator polls, too, and then has the messages of a batch one by one."""

    def after_next(record: Any, *args: Any, **kwargs: Any) -> None:
        if not _is_for_a_task(sys._getframe().f_back):
            _begin(native, record.topic, record.headers)

    def after_poll(batches: Any, *args: Any, **kwargs: Any) -> None:
        record = next((records[0] for records in batches.values() if records), None)
        if record is not None and not _is_for_a_task(sys._getframe().f_back):
            _begin(native, record.topic, record.headers)

    end = _end(native)
    native.hook(module.KafkaConsumer, "__next__", before=end, after=after_next)
    native.hook(module.KafkaConsumer, "poll", before=end, after=after_poll)
    native.hook(module.KafkaConsumer, "close", before=end)


def patch_aiokafka(native: Any, module: ModuleType) -> None:
    """Hooks the coroutine functions that a program calls: the next message is wanted."""
    end = _end(native)
    for name in ("getone", "getmany", "stop"):
        native.hook(module.AIOKafkaConsumer, name, before=end)


def patch_work_items(native: Any, module: ModuleType | None) -> None:
    """Hooks what an executor runs: where a process has consumers, and executors."""
    if module is not None and _end_request:
        native.hook(module._WorkItem, "run", after=_end_request[0])


def patch_aiokafka_records(native: Any, module: ModuleType) -> None:
    """Hooks what takes fetched messages, in the task that asked for them."""

    def after_one(record: Any, *args: Any, **kwargs: Any) -> None:
        if record is not None:
            _begin(native, record.topic, record.headers)

    def after_many(records: Any, *args: Any, **kwargs: Any) -> None:
        for record in records[:1]:
            _begin(native, record.topic, record.headers)

    native.hook(module.FetchResult, "getone", after=after_one)
    native.hook(module.FetchResult, "getall", after=after_many)


def _begin(native: Any, topic: str, headers: Iterable[tuple[str, bytes]]) -> None:
    if not native.is_on() or native.current_request():
        return
    request = native.request(f"kafka {topic}")
    request.__enter__()
    _request.set(request)
    texts = {key: value.decode("latin-1") for key, value in headers if key in _TRACE and isinstance(value, bytes)}
    incoming.mapping(native, request.id, texts)


def _end(native: Any) -> Any:
    def end(*args: Any, **kwargs: Any) -> None:
        request = _request.get()
        if request is not None:
            _request.set(None)
            request.__exit__(None, None, None)

    _end_request[:] = [end]
    patch_work_items(native, sys.modules.get("concurrent.futures.thread"))
    return end


def _is_for_a_task(caller: Any) -> bool:
    """Whether an executor runs nothing but this call, in a lambda or alone: the message is for the task that
    waits for the result."""
    while caller is not None and (
        caller.f_code.co_name == "<lambda>" or caller.f_globals.get("__name__", "").startswith("confluent_kafka.")
    ):
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == "concurrent.futures.thread"
