"""Turns the requests of web servers and frameworks into dashcam requests, without their help.

How it works: a finder in front of `sys.meta_path` notices when a module named in `PATCHES` is
imported, lets the real finders load it, and then calls the patch on it. Modules that are there
already are patched at once; none is ever imported for our sake.

What it promises: a module that looks other than expected stays as it is and a notice goes into
`status()`. Only one request is open per unit of work: an inner layer renames the outer one's.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

from dashcam import _process
from dashcam._integrations import (
    aiohttp,
    anyio,
    asyncio_tasks,
    celery,
    cheroot,
    django,
    executor,
    flask,
    gunicorn,
    http_server,
    hypercorn,
    opentelemetry,
    outgoing,
    pywsgi,
    starlette,
    tornado,
    uvicorn,
    waitress,
    wsgiref,
)

Patch = Callable[[Any, ModuleType], None]

PATCHES: dict[str, Patch] = {
    "aiohttp.client_reqrep": outgoing.patch_aiohttp,
    "aiohttp.web_protocol": aiohttp.patch,
    "aiohttp.web_urldispatcher": aiohttp.patch_routes,
    "anyio.to_thread": anyio.patch,
    "asyncio.tasks": asyncio_tasks.patch,
    "celery.app.base": outgoing.patch_celery,
    "celery.app.trace": celery.patch,
    "cheroot.wsgi": cheroot.patch,
    "concurrent.futures.thread": executor.patch,
    "django.core.handlers.asgi": django.patch_asgi,
    "django.core.handlers.base": django.patch_routes,
    "django.core.handlers.wsgi": django.patch_wsgi,
    "flask.app": flask.patch,
    "gevent.pywsgi": pywsgi.patch,
    "gunicorn.http.wsgi": gunicorn.patch_response,
    "gunicorn.workers.base": gunicorn.patch,
    "gunicorn.workers.base_async": gunicorn.patch_async,
    "gunicorn.workers.gthread": gunicorn.patch_gthread,
    "gunicorn.workers.sync": gunicorn.patch_sync,
    "http.client": outgoing.patch_http_client,
    "http.server": http_server.patch,
    "httpx._client": outgoing.patch_httpx,
    "hypercorn.app_wrappers": hypercorn.patch,
    "hypercorn.asyncio.tcp_server": hypercorn.patch_connections,
    "opentelemetry.instrumentation.instrumentor": opentelemetry.patch_instrumentor,
    "opentelemetry.sdk.trace": opentelemetry.patch_provider,
    "starlette.applications": starlette.patch,
    "starlette.routing": starlette.patch_routes,
    "tornado.routing": tornado.patch_routes,
    "tornado.web": tornado.patch,
    "uvicorn.protocols.http.h11_impl": uvicorn.patch,
    "uvicorn.protocols.http.httptools_impl": uvicorn.patch,
    "waitress.task": waitress.patch_tasks,
    "wsgiref.handlers": wsgiref.patch,
}


def install(native: Any) -> None:
    """Patches what is imported and watches for the rest. Once a process."""
    for name in PATCHES:
        module = sys.modules.get(name)
        if module is not None:
            apply(native, name, module)
    sys.meta_path.insert(0, _Watcher(native))


def apply(native: Any, name: str, module: ModuleType) -> None:
    """Patches one module; a failure is a notice."""
    if getattr(module, "__dashcam__", False):
        return
    try:
        PATCHES[name](native, module)
        module.__dashcam__ = True  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - never into the host
        _process.notice(f"{name} is not as expected, its requests are not recorded: {error!r}")


class _Watcher(MetaPathFinder):
    """Finds nothing itself; wraps the loader of modules to be patched."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]],
        target: Optional[ModuleType] = None,
    ) -> Optional[ModuleSpec]:
        if fullname not in PATCHES:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _PatchingLoader(self.native, spec.loader)
                elif spec.loader is not None:
                    spec.loader = _PatchingOldLoader(self.native, spec.loader)
                return spec
        return None


class _PatchingLoader(Loader):
    """Loads through the real loader, then patches, then puts the real loader back. Who asks for code, source or
    data instead (`python -m`, `inspect`, `importlib.resources`) gets the real loader's."""

    def __init__(self, native: Any, loader: Any) -> None:
        self.native, self.loader = native, loader

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # a copy of it that was not filled in yet
            raise AttributeError(name)
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        create = getattr(self.loader, "create_module", None)
        created: Optional[ModuleType] = create(spec) if create else None
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        apply(self.native, module.__name__, module)


class _PatchingOldLoader:
    """The same around a loader that has `load_module` only: CPython 3.9's of zip files, and some of hosts' own."""

    def __init__(self, native: Any, loader: Any) -> None:
        self.native, self.loader = native, loader

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    def load_module(self, fullname: str) -> ModuleType:
        module: ModuleType = self.loader.load_module(fullname)
        apply(self.native, fullname, module)
        return module


__all__ = ["PATCHES", "apply", "install"]
