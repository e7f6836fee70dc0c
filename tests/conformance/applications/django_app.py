"""A Django application, as WSGI, as ASGI, and as `manage.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import django
from django.conf import settings
from noting import kinds, note, stack, threads

if not settings.configured:
    settings.configure(
        DEBUG=False, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", USE_TZ=True,
        MIDDLEWARE=["django_app.noted"], INSTALLED_APPS=[],
        LOGGING={"version": 1, "disable_existing_loggers": False,
                 "formatters": {"f": {"format": "%(levelname)s %(name)s %(funcName)s %(message)s"}},
                 "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
                 "root": {"handlers": ["h"], "level": "INFO"}})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "")
    django.setup()

from django.http import FileResponse, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path, re_path  # noqa: E402


def noted(get_response: Any) -> Any:
    """A middleware."""

    def middleware(request: Any) -> Any:
        case = request.headers.get("X-Case", "")
        note(case, "middleware", stack(), threads(), kinds(get_response))
        response = get_response(request)
        note(case, "response", type(response).__name__, response.status_code)
        return response

    return middleware


def plain(request: Any, name: str = "") -> Any:
    note(request.headers.get("X-Case", ""), "view", stack())
    return HttpResponse(f"plain {name} {request.body!r}")


def raises(request: Any) -> Any:
    raise LookupError("unhandled")


def streams(request: Any) -> Any:
    case = request.headers.get("X-Case", "")

    def parts() -> Any:
        for part in range(4):
            note(case, "part", part)
            yield f"part {part} "

    return StreamingHttpResponse(parts())


def streams_and_fails(request: Any) -> Any:
    def parts() -> Any:
        yield "part"
        raise LookupError("while streaming")

    return StreamingHttpResponse(parts())


def sends(request: Any) -> Any:
    return FileResponse(open(__file__, "rb"), content_type="text/plain")


async def waits(request: Any) -> Any:
    await asyncio.sleep(0)
    note(request.headers.get("X-Case", ""), "async view", stack())
    return HttpResponse("waited")


async def waits_and_raises(request: Any) -> Any:
    raise LookupError("in an async view")


urlpatterns = [
    path("plain/<str:name>", plain), path("raises", raises), path("streams", streams), path("sends", sends),
    path("streams_and_fails", streams_and_fails), path("waits", waits), path("waits_and_raises", waits_and_raises),
    re_path(r"^ready$", plain),
]


def __getattr__(name: str) -> Any:
    if name == "application":
        from django.core.wsgi import get_wsgi_application

        return get_wsgi_application()
    if name == "asgi_application":
        from django.core.asgi import get_asgi_application

        return get_asgi_application()
    raise AttributeError(name)


if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    sys.modules["django_app"] = sys.modules["__main__"]
    settings.ROOT_URLCONF = "django_app"
    settings.WSGI_APPLICATION = "django_app.application"
    execute_from_command_line(sys.argv)
