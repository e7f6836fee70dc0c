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

from dashcam import _notices
from dashcam._integrations import calls, opentelemetry, outgoing
from dashcam._integrations.frameworks import aiohttp, django, flask, litestar, pyramid, sanic, starlette, tornado
from dashcam._integrations.jobs import arq, celery, dramatiq, kafka, rq
from dashcam._integrations.servers import (
    cheroot,
    daphne,
    eventlet,
    granian,
    grpc,
    gunicorn,
    http_server,
    hypercorn,
    pywsgi,
    twisted,
    uvicorn,
    waitress,
    wsgiref,
)
from dashcam._integrations.threads import anyio, asyncio_tasks, executor

Patch = Callable[[Any, ModuleType], None]

# Modules with which an integration begins requests: its name, and what hooks the module.
BEGIN_REQUESTS: dict[str, tuple[str, Patch]] = {
    "aiohttp.web_protocol": ("aiohttp", aiohttp.patch),
    "aiokafka.consumer.fetcher": ("aiokafka", kafka.patch_aiokafka_records),
    "arq.worker": ("arq", arq.patch),
    "celery.app.trace": ("Celery", celery.patch),
    "cheroot.wsgi": ("cheroot", cheroot.patch),
    "confluent_kafka": ("confluent-kafka", kafka.patch_confluent),
    "daphne.server": ("daphne", daphne.patch),
    "django.core.handlers.asgi": ("Django", django.patch_asgi),
    "django.core.handlers.wsgi": ("Django", django.patch_wsgi),
    "dramatiq.worker": ("Dramatiq", dramatiq.patch),
    "eventlet.wsgi": ("eventlet.wsgi", eventlet.patch),
    "flask.app": ("Flask", flask.patch),
    "gevent.pywsgi": ("gevent.pywsgi", pywsgi.patch),
    "granian.asgi": ("granian", granian.patch_asgi),
    "granian.wsgi": ("granian", granian.patch_wsgi),
    "grpc._server": ("gRPC", grpc.patch),
    "grpc.aio._server": ("gRPC", grpc.patch_aio),
    "gunicorn.workers.base_async": ("gunicorn", gunicorn.patch_async),
    "gunicorn.workers.gthread": ("gunicorn", gunicorn.patch_gthread),
    "gunicorn.workers.sync": ("gunicorn", gunicorn.patch_sync),
    "http.server": ("http.server", http_server.patch),
    "hypercorn.app_wrappers": ("hypercorn", hypercorn.patch),
    "kafka.consumer.group": ("kafka-python", kafka.patch_kafka_python),
    "litestar.app": ("Litestar", litestar.patch),
    "pyramid.router": ("Pyramid", pyramid.patch),
    "rq.job": ("RQ", rq.patch),
    "sanic.server.protocols.http_protocol": ("Sanic", sanic.patch),
    "starlette.applications": ("FastAPI/Starlette", starlette.patch),
    "tornado.web": ("Tornado", tornado.patch),
    "twisted.web.server": ("Twisted", twisted.patch),
    "uvicorn.protocols.http.h11_impl": ("uvicorn", uvicorn.patch),
    "uvicorn.protocols.http.httptools_impl": ("uvicorn", uvicorn.patch),
    "waitress.task": ("waitress", waitress.patch_tasks),
    "wsgiref.handlers": ("wsgiref", wsgiref.patch),
}


def _each(*patches: Patch) -> Patch:
    """One after the other."""

    def patch(native: Any, module: ModuleType) -> None:
        for one in patches:
            one(native, module)

    return patch


# What is hooked for names, traces, and work on other threads.
_BESIDE: dict[str, Patch] = {
    "aiohttp.client_reqrep": outgoing.patch_aiohttp,
    "aiohttp.web_urldispatcher": aiohttp.patch_routes,
    "aiokafka.consumer.consumer": kafka.patch_aiokafka,
    "anyio.to_thread": anyio.patch,
    "asyncio.tasks": asyncio_tasks.patch,
    "celery.app.base": outgoing.patch_celery,
    "concurrent.futures.thread": _each(executor.patch, kafka.patch_work_items),
    "django.core.handlers.base": django.patch_routes,
    "gunicorn.http.wsgi": gunicorn.patch_response,
    "gunicorn.workers.base": gunicorn.patch,
    "http.client": outgoing.patch_http_client,
    "httpx._client": outgoing.patch_httpx,
    "hypercorn.asyncio.tcp_server": hypercorn.patch_connections,
    "litestar.routes.http": litestar.patch_routes,
    "opentelemetry.instrumentation.instrumentor": opentelemetry.patch_instrumentor,
    "opentelemetry.sdk.trace": opentelemetry.patch_provider,
    "pyramid.urldispatch": pyramid.patch_routes,
    "sanic.router": sanic.patch_routes,
    "starlette.routing": starlette.patch_routes,
    "tornado.routing": tornado.patch_routes,
    "twisted.python.threadpool": twisted.patch_threads,
}

PATCHES: dict[str, Patch] = {**_BESIDE, **{module: patch for module, (_, patch) in BEGIN_REQUESTS.items()}}
for _module in calls.HOOKED:
    PATCHES[_module] = _each(PATCHES[_module], calls.patch) if _module in PATCHES else calls.patch


# The module that was patched last under each name.
_patched: dict[str, weakref.ref[ModuleType]] = {}


def install(native: Any) -> None:
    """Patches loaded modules, and those that are imported later. Once for each process."""
    native.known_integrations(sorted({name for name, _ in BEGIN_REQUESTS.values()}, key=str.lower))
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
        _notices.notice(f"importlib is not as expected, modules imported from now on are not recorded: {error!r}")


def apply(native: Any, name: str, module: ModuleType) -> None:
    """Patches one module that was executed; a failure is a notice."""
    if type(module) is not ModuleType:
        return  # one that is loaded when it is first used
    try:
        _patched[name] = weakref.ref(module)
        PATCHES[name](native, module)
        if name in BEGIN_REQUESTS:
            native.integration_in_place(BEGIN_REQUESTS[name][0])
    except Exception as error:  # noqa: BLE001 - never into the host
        if native.interrupts(error):
            raise
        _notices.notice(f"{name} is not as expected, its requests are not recorded: {error!r}")


__all__ = ["PATCHES", "apply", "install"]
