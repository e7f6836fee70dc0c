"""The cost of a span, an event and a request in Python, beside an empty loop, a context manager
that does nothing, and OpenTelemetry's SDK (batch processor, exporter that drops). One run, rounds
interleaved; the median round, and the least one, which a busy machine disturbs less. "two threads":
both do half of the calls at once, taking turns with the GIL; the time of all divided by all calls.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from typing import Any, Callable

import dashcam

ROUNDS, TIMES = 90, 2_000


class Nothing:
    """A context manager in Python that does nothing."""

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def empty(n: int) -> None:
    for _ in range(n):
        pass


def python_with(n: int) -> None:
    nothing = Nothing()
    for _ in range(n):
        with nothing:
            pass


def span(n: int) -> None:
    for _ in range(n):
        with dashcam.span("bench.span"):
            pass


def span_with_attribute(n: int) -> None:
    for i in range(n):
        with dashcam.span("bench.span", rows=i):
            pass


def span_with_two(n: int) -> None:
    for i in range(n):
        with dashcam.span("bench.span", rows=i, table="users"):
            pass


def span_set(n: int) -> None:
    for i in range(n):
        with dashcam.span("bench.span") as one:
            one.set(rows=i)


def span_in_request(n: int) -> None:
    with dashcam.request("bench.request"):
        span(n)


def event(n: int) -> None:
    for _ in range(n):
        dashcam.event("bench.event")


def request(n: int) -> None:
    for _ in range(n):
        with dashcam.request("bench.request"):
            pass


class TwoThreads:
    """A case, half of it on each of two threads that wait for their turns."""

    def __init__(self, case: "Callable[[int], None]") -> None:
        self.case = case
        self.turns = 0
        self.gate = threading.Barrier(3)
        for _ in range(2):
            threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            self.gate.wait()
            self.case(self.turns)
            self.gate.wait()

    def __call__(self, n: int) -> None:
        self.turns = n // 2
        self.gate.wait()
        self.gate.wait()


def opentelemetry() -> "Callable[[int], None] | None":
    """OpenTelemetry's span, if it is installed."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    except ImportError:
        return None

    class Drop(SpanExporter):
        def export(self, spans: Any) -> Any:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drop()))
    tracer = provider.get_tracer("bench")

    def otel(n: int) -> None:
        for i in range(n):
            with tracer.start_as_current_span("bench", attributes={"rows": i}):
                pass

    return otel


def measure(cases: "dict[str, Callable[[int], None]]") -> "dict[str, tuple[float, float]]":
    """Median and least ns for each turn of the loop."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            turns = TIMES // 20 if "OpenTelemetry" in name else TIMES
            # The start and end barriers cost as much as some hundred calls: more calls share that
            # cost.
            turns *= 10 if "two threads" in name else 1
            begin = time.perf_counter_ns()
            case(turns)
            times[name].append((time.perf_counter_ns() - begin) / turns)
    return {name: (statistics.median(rounds), min(rounds)) for name, rounds in times.items()}


def main() -> None:
    """Prints the table."""
    plain = {"empty loop": empty, "with: pass, Python class": python_with}
    off = measure({"span, off": span, "event, off": event})
    dashcam.start(service="bench", out="/tmp", switches=False, stacks=False, slow="1h")
    # The box's pages are touched for the first time; the clock finds the CPU's counter.
    span(2_000_000)
    on: dict[str, Callable[[int], None]] = {
        **plain, "span, on": span, "span + attribute, on": span_with_attribute,
        "span + int and str, on": span_with_two, "span, set() inside, on": span_set,
        "span in a request, on": span_in_request, "event, on": event, "request, on": request,
        "empty loop, two threads": TwoThreads(empty), "span, on, two threads": TwoThreads(span),
        "event, on, two threads": TwoThreads(event), "request, on, two threads": TwoThreads(request),
    }
    otel = opentelemetry()
    if otel is not None:
        on["OpenTelemetry SDK span + attribute"] = otel
    figures = {**measure(on), **off}
    print(f"{'Python, ns a call':38}{'median':>10}{'least':>10}")
    for name, (median, least) in figures.items():
        print(f"{name:38}{median:10.0f}{least:10.0f}")
    if otel is not None:
        ratio = figures["OpenTelemetry SDK span + attribute"][1] / figures["span + attribute, on"][1]
        print(f"OpenTelemetry's span costs {ratio:.0f} times ours, by the least rounds")
    else:
        print("OpenTelemetry: not installed here, row left out")
    with contextlib.suppress(OSError):
        dashcam.stop()


if __name__ == "__main__":
    main()
