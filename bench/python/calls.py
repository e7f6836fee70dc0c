"""What a span, an event and a request cost in Python, beside an empty loop, a context manager that
does nothing, and OpenTelemetry's SDK (batch processor, exporter that drops). One run, rounds
interleaved, medians."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any, Callable

import dashcam

ROUNDS, TIMES = 9, 20_000


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


def event(n: int) -> None:
    for _ in range(n):
        dashcam.event("bench.event")


def request(n: int) -> None:
    for _ in range(n):
        with dashcam.request("bench.request"):
            pass


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


def measure(cases: "dict[str, Callable[[int], None]]") -> dict[str, float]:
    """Median ns a turn of the loop."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            turns = TIMES // 20 if "OpenTelemetry" in name else TIMES
            begin = time.perf_counter_ns()
            case(turns)
            times[name].append((time.perf_counter_ns() - begin) / turns)
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def main() -> None:
    """Prints the table."""
    plain = {"empty loop": empty, "with: pass, Python class": python_with}
    off = measure({"span, off": span, "event, off": event})
    dashcam.start(service="bench", out="/tmp", switches=False, stacks=False, slow="1h")
    on: dict[str, Callable[[int], None]] = {
        **plain, "span, on": span, "span + attribute, on": span_with_attribute,
        "event, on": event, "request, on": request,
    }
    otel = opentelemetry()
    if otel is not None:
        on["OpenTelemetry SDK span + attribute"] = otel
    figures = {**measure(on), **off}
    print(f"{'Python, ns a call':38}{'ns':>10}")
    for name, ns in figures.items():
        print(f"{name:38}{ns:10.0f}")
    if otel is not None:
        ratio = figures["OpenTelemetry SDK span + attribute"] / figures["span + attribute, on"]
        print(f"OpenTelemetry's span costs {ratio:.0f} times ours")
    else:
        print("OpenTelemetry: not installed here, row left out")
    with contextlib.suppress(OSError):
        dashcam.stop()


if __name__ == "__main__":
    main()
