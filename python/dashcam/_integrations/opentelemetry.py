"""OpenTelemetry with the setting `otel`: every provider of the SDK feeds dashcam. If the program
sets no provider before it instruments, one is set that does nothing else."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch_provider(native: Any, module: ModuleType) -> None:
    """Hooks `TracerProvider.__init__`."""

    def after(result: None, self: Any, *args: Any, **kwargs: Any) -> None:
        if native.setting_is_on("otel"):
            from dashcam import otel

            otel.install(self)

    native.hook(module.TracerProvider, "__init__", after=after)


def patch_instrumentor(native: Any, module: ModuleType) -> None:
    """Hooks `BaseInstrumentor.instrument`."""

    def before(self: Any, *args: Any, **kwargs: Any) -> None:
        if native.setting_is_on("otel") and kwargs.get("tracer_provider") is None:
            from dashcam import otel

            try:
                otel.install()
            except TypeError:  # the program has a provider of another make
                pass

    native.hook(module.BaseInstrumentor, "instrument", before=before)
