"""Doors with the surface of other clients: change the import, keep the calls.

    from dashcam.compat import statsd              # for `import statsd`
    from dashcam.compat.datadog import initialize, statsd     # for `from datadog import ...`

They feed dashcam's metrics (docs/metrics.md, "Import swap"): no socket of their own, nothing waits,
nothing raises. What cannot be done is counted in `refused()` and in the metric
`dashcam.compat.refused` with a tag `reason`, and told on stderr once a reason.
"""

from __future__ import annotations

from dashcam.compat._shared import refused

__all__ = ["refused"]
