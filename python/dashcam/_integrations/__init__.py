"""Turns the requests of web servers and frameworks into dashcam requests, without a change to them.

How it works: a module named in `PATCHES` is patched as soon as it was executed. Two functions of
importlib show that: `exec_module` of the loaders of files, also when a module is reloaded or
executed by hand, and `_load_unlocked`, whatever the loader. Both are hooked like all other
functions (python/src/hooks), so `sys.meta_path`, specs and loaders are the same as without dashcam.
Modules that are loaded already are patched at once; dashcam never imports one for this.

What it promises: a module with an unexpected form remains unchanged, and a notice goes into
`status()`. Only one request is open per unit of work: an inner layer renames the outer one's.
"""

from __future__ import annotations

import sys
import weakref
from importlib import _bootstrap, _bootstrap_external
from types import ModuleType
from typing import Any, Callable

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
    pyramid,
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
    "pyramid.router": pyramid.patch,
    "pyramid.urldispatch": pyramid.patch_routes,
    "starlette.applications": starlette.patch,
    "starlette.routing": starlette.patch_routes,
    "tornado.routing": tornado.patch_routes,
    "tornado.web": tornado.patch,
    "uvicorn.protocols.http.h11_impl": uvicorn.patch,
    "uvicorn.protocols.http.httptools_impl": uvicorn.patch,
    "waitress.task": waitress.patch_tasks,
    "wsgiref.handlers": wsgiref.patch,
}


# The module that was patched last under each name.
_patched: dict[str, weakref.ref[ModuleType]] = {}


def install(native: Any) -> None:
    """Patches loaded modules, and those that are imported later. Once for each process."""
    for name in PATCHES:
        module = sys.modules.get(name)
        if module is not None:
            apply(native, name, module)

    def after_execution(result: None, self: Any, module: ModuleType) -> None:
        name = module.__name__
        if name in PATCHES and sys.modules.get(name) is module:
            apply(native, name, module)

    def after_loading(module: ModuleType, spec: Any) -> None:
        name = spec.name
        if name in PATCHES and not (name in _patched and _patched[name]() is module):
            apply(native, name, module)

    try:
        native.hook(getattr(_bootstrap_external, "_LoaderBasics"), "exec_module", after=after_execution)  # noqa: B009
        native.hook(_bootstrap, "_load_unlocked", after=after_loading)
    except (AttributeError, TypeError) as error:
        _process.notice(f"importlib is not as expected, modules imported from now on are not recorded: {error!r}")


def apply(native: Any, name: str, module: ModuleType) -> None:
    """Patches one module that was executed; a failure is a notice."""
    if type(module) is not ModuleType:
        return  # one that is loaded when it is first used
    try:
        _patched[name] = weakref.ref(module)
        PATCHES[name](native, module)
    except Exception as error:  # noqa: BLE001 - never into the host
        if native.interrupts(error):
            raise
        _process.notice(f"{name} is not as expected, its requests are not recorded: {error!r}")


__all__ = ["PATCHES", "apply", "install"]
