"""Django on an event loop: a rare view computes between two awaits. The twin's report is small."""

from __future__ import annotations

import asyncio
import itertools

from django.conf import settings

settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])

from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

turns = itertools.count(1)


def render(rows: int) -> str:
    cells = 0
    for row in range(rows):
        cells += len(str(row)) % 7
    return str(cells)


async def report(request: HttpRequest, year: int) -> HttpResponse:
    await asyncio.sleep(0.001)
    n = next(turns)
    return HttpResponse(render(5_000_000 if n % 80 == 40 else 2_000))


urlpatterns = [path("report/<int:year>", report)]
app = get_asgi_application()
