"""OpenTelemetry with the setting `otel`: every provider of the SDK feeds dashcam, and where the
program sets none before it instruments, one is set that does nothing else."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def patch_provider(native: Any, module: ModuleType) -> None:
    """Wraps `TracerProvider.__init__`."""
    original = module.TracerProvider.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if native.setting_is_on("otel"):
            from dashcam import otel

            otel.install(self)

    module.TracerProvider.__init__ = __init__


def patch_instrumentor(native: Any, module: ModuleType) -> None:
    """Wraps `BaseInstrumentor.instrument`."""
    original = module.BaseInstrumentor.instrument

    @functools.wraps(original)
    def instrument(self: Any, *args: Any, **kwargs: Any) -> Any:
        if native.setting_is_on("otel") and kwargs.get("tracer_provider") is None:
            from dashcam import otel

            try:
                otel.install()
            except TypeError:  # the program has a provider of another make
                pass
        return original(self, *args, **kwargs)

    module.BaseInstrumentor.instrument = instrument
