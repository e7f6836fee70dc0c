"""Decodes an export by the official classes; fails at a field they do not know.

decode.py otlp|otlp-metrics|zipkin FILE; prints (trace, span, parent, name) of each span, or (name,
points) of each metric.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData


def known(message: Message, where: str) -> None:
    """No field is unknown, also in nested messages."""
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    assert not unknown, f"{where}: unknown fields {unknown}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        repeated = not isinstance(value, Message)
        for inner in value if repeated else [value]:
            known(inner, f"{where}.{field.name}")


def traces(data: bytes) -> list:
    """The spans, checked against the specification."""
    message = ExportTraceServiceRequest.FromString(data)
    known(message, "traces")
    known(TracesData.FromString(data), "TracesData")
    out = []
    for resource in message.resource_spans:
        keys = [pair.key for pair in resource.resource.attributes]
        assert "service.name" in keys and len(keys) == len(set(keys)), keys
        for scope in resource.scope_spans:
            assert scope.scope.name in ("dashcam", "dashcam.seen"), scope.scope
            for span in scope.spans:
                assert len(span.trace_id) == 16 and any(span.trace_id), span
                assert len(span.span_id) == 8 and any(span.span_id), span
                assert len(span.parent_span_id) in (0, 8), span
                assert span.name and span.start_time_unix_nano <= span.end_time_unix_nano, span
                keys = [pair.key for pair in span.attributes]
                assert len(keys) == len(set(keys)), keys
                out.append((span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name))
    return out


def metrics(data: bytes) -> list:
    """The metrics, checked against the specification."""
    message = ExportMetricsServiceRequest.FromString(data)
    known(message, "metrics")
    known(MetricsData.FromString(data), "MetricsData")
    out = []
    for metric in (m for r in message.resource_metrics for s in r.scope_metrics for m in s.metrics):
        kind = metric.WhichOneof("data")
        assert metric.name and kind, metric
        points = getattr(metric, kind).data_points
        assert points, metric
        for point in points:
            assert point.time_unix_nano >= point.start_time_unix_nano > 0 or kind == "gauge", metric
        out.append((metric.name, len(points)))
    return out


def zipkin(data: bytes) -> list:
    """The spans, checked against Zipkin's API description (v2)."""
    allowed = {"traceId", "id", "parentId", "name", "kind", "timestamp", "duration", "localEndpoint", "annotations", "tags"}
    out = []
    for span in json.loads(data):
        assert not set(span) - allowed, span
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]), span
        assert re.fullmatch("[0-9a-f]{16}", span["id"]), span
        assert re.fullmatch("[0-9a-f]{16}", span.get("parentId", "0" * 16)), span
        assert span.get("kind", "CLIENT") in ("CLIENT", "SERVER", "PRODUCER", "CONSUMER"), span
        assert isinstance(span["timestamp"], int) and span["duration"] >= 1, span
        assert span["localEndpoint"]["serviceName"], span
        assert all(isinstance(value, str) for value in span["tags"].values()), span
        assert all(isinstance(a["timestamp"], int) and a["value"] for a in span.get("annotations", [])), span
        out.append((span["traceId"], span["id"], span.get("parentId", ""), span["name"]))
    return out


if __name__ == "__main__":
    forms = {"otlp": traces, "otlp-metrics": metrics, "zipkin": zipkin}
    print(json.dumps(forms[sys.argv[1]](Path(sys.argv[2]).read_bytes())))
