"""For `datadog.api`: the calls of the vendor's HTTP API that a StatsD server understands go to the
StatsD server.

| call | becomes |
| --- | --- |
| `Event.create` | an event, as of `DogStatsd.event` |
| `ServiceCheck.check` | a service check |
| `Metric.send` of type gauge (the default) or count | a gauge, a count |
| `Distribution.send` | values of a distribution |

These return {"status": "ok"}. All other calls, of any resource, send nothing: they return
{"errors": [why]}, as the client does for an error while it is mute, are counted in
`dashcam.compat.refused` with the reason `api`, and reported on stderr once. Nothing raises.

Differences: no host is added (the Agent adds its own), `host` is a tag; a point whose time is more
than ten seconds off is counted now and reported with the reason `timestamp`. Missing on purpose:
HTTP to a vendor from inside a service; for that keep the client itself.
"""

from __future__ import annotations

from typing import Any, Callable

from dashcam.compat._shared import refuse, shown
from dashcam.compat.datadog.dogstatsd import DogStatsd
from dashcam.compat.datadog.threadstats import on_host, warn_if_late

# The arguments of `initialize`; nothing here uses them.
_api_key: Any = None
_application_key: Any = None
_api_host: Any = None
_host_name: Any = None
_hostname_from_config = True
_return_raw_response = False
_mute = True

# Without the namespace and the tags that `initialize` sets: those are for `statsd` alone.
_client = DogStatsd()
_client.constant_tags = []
_OTHERS = frozenset((
    "AwsIntegration", "AwsLogsIntegration", "AzureIntegration", "Comment", "Dashboard", "DashboardList",
    "Downtime", "Embed", "GcpIntegration", "Graph", "Host", "Hosts", "Infrastructure", "Logs", "Metadata",
    "Monitor", "Permissions", "Roles", "Screenboard", "SecurityMonitoringRule",
    "SecurityMonitoringSignal", "ServiceLevelObjective", "Synthetics", "Tag", "Timeboard", "User"))

_TAKEN = "ok"


def _keep(api_key: Any, app_key: Any, host_name: Any, api_host: Any, hostname_from_config: bool,
          return_raw_response: bool, others: dict[str, Any]) -> None:
    """For `initialize`."""
    mine = globals()
    given = {"_api_key": api_key, "_application_key": app_key, "_host_name": host_name,
             "_api_host": api_host}
    mine.update({name: value for name, value in given.items() if value})
    mine["_hostname_from_config"] = hostname_from_config
    mine["_return_raw_response"] = return_raw_response
    mine.update({f"_{name}": value for name, value in others.items()})


def _wrong(reason: str, text: str) -> dict[str, Any]:
    refuse(reason, text)
    return {"errors": [text]}


def _not_sent(call: str) -> dict[str, Any]:
    return _wrong("api", f"datadog.api: found {call}, wanted Event.create, ServiceCheck.check, "
                  "Metric.send or Distribution.send; nothing is sent by HTTP from here: keep the "
                  "package datadog for it")


class _Resource(type):
    """Missing methods of a resource answer with the reason."""

    def __getattr__(cls, method: str) -> Callable[..., dict[str, Any]]:
        if method.startswith("_"):
            raise AttributeError(method)
        call = f"{cls.__name__}.{method}"
        return lambda *args, **kwargs: _not_sent(call)


def __getattr__(name: str) -> Any:
    if name not in _OTHERS:
        raise AttributeError(f"module 'dashcam.compat.datadog.api' has no attribute {name!r}")
    return _Resource(name, (), {"__module__": __name__, "__doc__": "Nothing here is sent."})


class Event(metaclass=_Resource):
    """For `api.Event`."""

    @classmethod
    def create(cls, attach_host_name: bool = True, method: str = "POST", id: Any = None,
               params: Any = None, **body: Any) -> dict[str, Any]:
        """Sends an event: title, text, alert_type, aggregation_key, source_type_name,
        date_happened, priority, tags, host. `handle`, `related_event_id` and `device_name` are not
        sent."""
        if not body.get("title"):
            return _wrong("value", "Event.create: found no title, wanted one")
        taken = _client._event(
            body["title"], body.get("text") or "", body.get("alert_type"), body.get("aggregation_key"),
            body.get("source_type_name"), body.get("date_happened"), body.get("priority"),
            body.get("tags"), body.get("host"))
        return {"status": _TAKEN} if taken else {"errors": ["the event was not taken: dashcam.compat.refused"]}


class ServiceCheck(metaclass=_Resource):
    """For `api.ServiceCheck`."""

    @classmethod
    def check(cls, **body: Any) -> dict[str, Any]:
        """Sends the outcome of a check: check, status, tags, timestamp, host_name, message."""
        if not body.get("check"):
            return _wrong("value", "ServiceCheck.check: found no check, wanted its name")
        taken = _client._check(body["check"], body.get("status"), body.get("tags"), body.get("timestamp"),
                               body.get("host_name"), body.get("message"))
        return {"status": _TAKEN} if taken else {"errors": ["the check was not taken: dashcam.compat.refused"]}


class Metric(metaclass=_Resource):
    """For `api.Metric`."""

    @classmethod
    def send(cls, metrics: Any = None, attach_host_name: bool = True, compress_payload: bool = False,
             **single_metric: Any) -> dict[str, Any]:
        """Counts, or sets gauges: metric, points, type (gauge, count), tags, host. `points`: a
        value, (time, value), or a list of those; for a gauge the last one holds."""
        return _all("Metric.send", metrics or [single_metric])


class Distribution(metaclass=_Resource):
    """For `api.Distribution`."""

    @classmethod
    def send(cls, distributions: Any = None, attach_host_name: bool = True,
             compress_payload: bool = False, **distribution: Any) -> dict[str, Any]:
        """Records values: metric, points ((time, [values]), or a list of those), tags, host."""
        return _all("Distribution.send", distributions or [distribution], _client.distribution)


def _all(call: str, series: Any, put: "Callable[..., Any] | None" = None) -> dict[str, Any]:
    wrong: list[str] = []
    try:
        for one in series:
            wrong += _one(call, dict(one), put)
    except Exception as error:  # noqa: BLE001  what was given may be anything
        wrong.append(f"{call}: {shown(error, str)}")
        refuse("value", wrong[-1])
    return {"errors": wrong} if wrong else {"status": _TAKEN}


def _one(call: str, series: dict[str, Any], put: "Callable[..., Any] | None") -> list[str]:
    """A series' points; the errors in them."""
    name = series.get("metric")
    if not isinstance(name, str) or "points" not in series:
        text = f"{call}: found metric {shown(name)} and keys {sorted(series)}, wanted metric and points"
        refuse("value", text)
        return [text]
    kind = series.get("type") or series.get("metric_type") or "gauge"
    put = put or {"gauge": _client.gauge, "count": _client.count}.get(kind)
    if put is None:
        text = (f"{call}: {name}: found type {shown(kind)}, wanted gauge or count: StatsD has no rates; "
                "count what the rate is of")
        refuse("value", text)
        return [text]
    points = series["points"]
    for point in points if isinstance(points, list) else [points]:
        values = point
        if isinstance(point, (tuple, list)):
            warn_if_late(name, point[0])
            values = point[1]
        for value in values if isinstance(values, (tuple, list)) else [values]:
            put(name, value, on_host(series.get("tags"), series.get("host")))
    return []
