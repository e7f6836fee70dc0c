"""Django on an event loop: a view that is not async runs in a thread and rarely backs off there.
The twin does not."""

from __future__ import annotations

import itertools
import time

from django.conf import settings

settings.configure(SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])

from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

turns = itertools.count(1)


def stamp(n: int) -> str:
    if n % 80 == 40:
        time.sleep(0.4)
    return str(sum(i * i for i in range(3000)))


def letter(request: HttpRequest, town: str) -> HttpResponse:
    return HttpResponse(stamp(next(turns)))


urlpatterns = [path("letter/<str:town>", letter)]
app = get_asgi_application()
