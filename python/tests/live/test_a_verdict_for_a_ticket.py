"""`dashcam why --md`: the answer first, and no name of the program becomes markup."""

from __future__ import annotations

from conftest import Bench

PROGRAM = """
    import dashcam, time
    dashcam.start(service="billy", slow="250ms", post="50ms")
    def backoff():
        time.sleep(0.4)
    def price():
        backoff()
    for i in range(40):
        with dashcam.request("GET /<script>alert(1)</script>|`x`\\n# *bold*"):
            time.sleep(0.001)
            if i % 20 == 19:
                price()
    print(dashcam.snap("odd | <b>reason</b>"))
    dashcam.stop()
"""


def test_the_first_line_is_the_answer_and_names_are_escaped(bench: Bench) -> None:
    result = bench.python(PROGRAM)
    assert result.returncode == 0, result.stderr
    capture = result.stdout.strip()
    text = bench.dashcam("why", "--md", capture)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.splitlines()
    assert lines[0].startswith("**2 of 40 requests took over 250 ms (typical "), lines[0]
    assert ": sleep in `backoff()` at `program.py:5`, " in lines[0]
    chain = next(line for line in lines if line.startswith("**Chain:**"))
    assert "``GET /<script>alert(1)</script>|`x` # *bold*`` → " in chain
    assert "| slow requests that have it | 2 of 2 |" in lines
    assert any(line.startswith("**Advice:** ") for line in lines)
    assert "captured because: `odd | <b>reason</b>`;" in lines[-1]
    # Outside of code spans no tag is left.
    assert all("<" not in "".join(line.split("`")[::2]) or "``" in line for line in lines)
    assert bench.dashcam("why", "--md", "--json", capture).returncode == 2


def test_nothing_to_blame_is_an_answer_too(bench: Bench) -> None:
    capture = bench.python(PROGRAM.replace("250ms", "9s")).stdout.strip()
    text = bench.dashcam("why", "--md", capture)
    assert text.returncode == 1
    assert text.stdout.startswith("**Nothing to blame: none of 40 requests took over 9 s")
