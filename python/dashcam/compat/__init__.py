"""The APIs of other clients: change the import, keep the calls.

    from dashcam.compat import statsd              # for `import statsd`
    from dashcam.compat.datadog import initialize, statsd     # for `from datadog import ...`

They feed dashcam's metrics (docs/metrics.md, "Import swap"): no socket of their own, nothing waits,
nothing raises. Refused calls are counted in `refused()` and in the metric `dashcam.compat.refused`
with a tag `reason`, and reported on stderr once for each reason.
"""

from __future__ import annotations

from dashcam.compat._shared import refused

__all__ = ["refused"]
