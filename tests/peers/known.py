"""Known differences: the suite, the test, what is seen, and the reason.

An entry silences exactly one difference. `changed`: recording changes it, for the reason given.
`unsteady`: it differs on the bare side, too, but so seldom that a run may not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Known:
    """One known difference."""

    project: str
    test: str
    seen: Literal["changed", "unsteady"]
    why: str


# Decision 0036 lists what a program can still see. A request follows its tasks in a context
# variable.
_CONTEXT = "lists all variables of a copied context: dashcam_request, in which a request follows its tasks, is there"
# One bare run of twelve fails; one in eight does with an application that takes 0.4 s to be
# imported.
_TAKEN_FIRST = "asks again 0.1 s after a request of 0.5 s and counts on the first being taken before, by another thread"
# It passes with a limit of 60 s, and where the programs are not recorded: 2 of 2 times each.
_SIXTEEN = "sixteen programs of Python, each recorded by a development build, within 2 s"
# The answer to the COMMIT of a failed pipeline ("aborted") is read by the commit, or, if it arrives
# later, by the rollback, which then raises. A loop of these steps failed in 41 of 3,000 bare tries.
_PIPELINE = "rolls back in a failed pipeline and counts on the answer to its COMMIT having been read before"

KNOWN: "list[Known]" = [
    Known("uvicorn", "tests/test_server.py::test_reset_contextvars_asyncio[h11]", "changed", _CONTEXT),
    Known("uvicorn", "tests/test_server.py::test_reset_contextvars_asyncio[httptools]", "changed", _CONTEXT),
    Known(
        "gunicorn",
        "tests/test_gthread_keepalive_shutdown.py::test_next_request_served_after_worker_stops",
        "unsteady",
        _TAKEN_FIRST,
    ),
    Known(
        "gevent",
        "gevent.tests.test__monkey_fork_atomic::__main__.Test.test_forks_do_not_overlap",
        "changed",
        _SIXTEEN,
    ),
    Known(
        "psycopg",
        "tests/test_pipeline_async.py::test_errors_raised_on_commit[asyncio]",
        "unsteady",
        _PIPELINE,
    ),
]
