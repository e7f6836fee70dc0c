"""`dashcam.LogFilter` gives log records the ids of the request and the trace they belong to."""

from __future__ import annotations

from conftest import Bench

START = """
import io, logging, dashcam
out = io.StringIO()
handler = logging.StreamHandler(out)
handler.addFilter(dashcam.LogFilter())
handler.setFormatter(logging.Formatter("%(request_id)s/%(trace_id)s %(message)s"))
logging.getLogger().addHandler(handler)
assert isinstance(handler.filters[0], logging.Filter)
"""


def test_ids_are_those_of_the_request_and_of_its_trace(bench: Bench) -> None:
    result = bench.python(START + """
dashcam.start(memory="1MiB", at_exit="never")
with dashcam.request("GET /x") as request:
    logging.warning("inside")
    number, trace = request.id, dashcam.trace_id()
logging.warning("outside")
assert number > 0 and len(trace) == 32
inside, outside = out.getvalue().splitlines()
assert inside == f"{number}/{trace} inside", inside
assert outside == "0/ outside", outside
""")
    assert result.returncode == 0, result.stderr


def test_a_record_keeps_ids_of_the_program(bench: Bench) -> None:
    result = bench.python(START + """
logging.warning("text", extra={"request_id": "mine", "trace_id": "abc"})
assert out.getvalue() == "mine/abc text\\n", out.getvalue()
""")
    assert result.returncode == 0, result.stderr
