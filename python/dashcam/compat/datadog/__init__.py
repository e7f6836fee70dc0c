"""The surface of the PyPI package `datadog` 0.56 over dashcam's metrics.

    from dashcam.compat.datadog import initialize, statsd, ThreadStats, api
    initialize(statsd_constant_tags=["shop:a"])
    statsd.increment("orders", tags=["region:eu"])

Modules as there: `dogstatsd`, `threadstats` and `api`. docs/metrics.md, "Import swap", lists the
differences. Missing on purpose: AWS Lambda, and the command line.
"""

from __future__ import annotations

from typing import Any

from dashcam.compat.datadog import api
from dashcam.compat.datadog.dogstatsd import DEFAULT_HOST, DEFAULT_PORT, DogStatsd, _Tags, statsd
from dashcam.compat.datadog.threadstats import ThreadStats

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "DogStatsd", "ThreadStats", "api", "initialize", "statsd"]


def initialize(
    api_key: str | None = None, app_key: str | None = None, host_name: str | None = None,
    api_host: str | None = None, statsd_host: str | None = None, statsd_port: int | None = None,
    statsd_disable_aggregation: bool = True, statsd_disable_buffering: bool = True,
    statsd_aggregation_flush_interval: float = 0.3, statsd_use_default_route: bool = False,
    statsd_socket_path: str | None = None, statsd_namespace: str | None = None,
    statsd_max_samples_per_context: int = 0, statsd_constant_tags: _Tags = None,
    return_raw_response: bool = False, hostname_from_config: bool = True,
    cardinality: str | None = None, **kwargs: Any,
) -> None:
    """For `datadog.initialize`: namespace and constant tags for `statsd`; the server is compared
    with the environment's. Keys and hosts of the HTTP API are stored in `api`, and not used."""
    api._keep(api_key, app_key, host_name, api_host, hostname_from_config, return_raw_response, kwargs)
    if statsd_namespace:
        statsd.namespace = str(statsd_namespace)
    if statsd_constant_tags:
        statsd.constant_tags += list(statsd_constant_tags)
    if cardinality:
        statsd.cardinality = cardinality
    if statsd_socket_path:
        statsd.socket_path, statsd.host, statsd.port = statsd_socket_path, None, None
        statsd._compare()
    elif statsd_host or statsd_port:
        statsd.socket_path = None
        statsd.host, statsd.port = statsd_host or "localhost", statsd_port or 8125
        statsd._compare()
