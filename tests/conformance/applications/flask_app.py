"""A Flask application: handlers of every kind."""

from __future__ import annotations

import io
import logging
from typing import Any

import flask
from noting import frames, kinds, note, stack, threads

application = app = flask.Flask(__name__)
logging.basicConfig(format="%(levelname)s %(name)s %(funcName)s %(message)s")


def _case() -> str:
    return flask.request.headers.get("X-Case", "")


@app.before_request
def before() -> None:
    note(_case(), "before", stack(), threads())


@app.after_request
def after(response: Any) -> Any:
    note(_case(), "after", response.status, stack())
    return response


@app.teardown_request
def teardown(error: BaseException | None) -> None:
    note(_case(), "teardown", repr(error), stack())


@app.errorhandler(KeyError)
def handled(error: KeyError) -> Any:
    note(_case(), "handled", frames(error))
    return "handled", 409


@app.route("/plain/<name>", methods=["GET", "POST", "HEAD"])
def plain(name: str) -> Any:
    note(_case(), "kinds", kinds(flask.Flask.wsgi_app), kinds(app.full_dispatch_request), kinds(app.handle_exception))
    return f"plain {name} {flask.request.get_data()!r}"


@app.route("/raises")
def raises() -> Any:
    raise LookupError("unhandled")


@app.route("/handled")
def raises_handled() -> Any:
    raise KeyError("handled")


@app.route("/aborts")
def aborts() -> Any:
    flask.abort(418)


@app.route("/streams")
def streams() -> Any:
    case = _case()

    def parts() -> Any:
        for part in range(4):
            note(case, "part", part, stack())
            yield f"part {part} "

    return flask.Response(flask.stream_with_context(parts()), mimetype="text/plain")


@app.route("/streams_and_fails")
def streams_and_fails() -> Any:
    def parts() -> Any:
        yield "part"
        raise LookupError("while streaming")

    response = flask.Response(parts(), mimetype="text/plain")
    case = _case()
    response.call_on_close(lambda: note(case, "on close", stack()))
    return response


@app.route("/sends")
def sends() -> Any:
    return flask.send_file(io.BytesIO(b"a file " * 100), mimetype="text/plain", etag=False)


@app.route("/waits")
async def waits() -> Any:
    return "not installed"


@app.route("/<path:rest>")
def rest(rest: str) -> Any:
    return "ready" if rest == "ready" else ("nothing here", 404)
