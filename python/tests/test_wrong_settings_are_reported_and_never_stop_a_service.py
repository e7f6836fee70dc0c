"""In code a wrong value raises; in the environment it is reported and ignored; flags are
refused.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path

import pytest
from conftest import BIN, Bench

import dashcam


def test_a_wrong_value_in_code_raises_with_the_accepted_range(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        for wrong in [dict(slow="fast"), dict(memory="9TiB"), dict(colour="red"), dict(keep=0)]:
            try:
                dashcam.start(**wrong)
            except ValueError as error:
                print(error)
            else:
                raise AssertionError(wrong)
        assert dashcam.start(slow="1s, checkout>250ms", memory="8MiB", switches=False)
        state = dashcam.status()
        assert state["sources"]["switches"].startswith("off: turned off"), state
        assert state["settings"]["memory_bytes"] == 8 << 20
    """)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == ('slow: found "fast", wanted a limit like 500ms, one by name like checkout>250ms, '
                        "or a percentile over 1s to 1h like p99(checkout)>50ms/30s, several with commas")
    assert lines[1] == 'memory: found "9TiB", wanted 1MiB to 4GiB'
    assert lines[2].startswith('colour: found "red", wanted one of the settings enabled, service')


def test_wrong_values_are_refused_while_recording_is_on_too(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        assert dashcam.start(slow="1s", memory="8MiB")
        for wrong in [dict(slw="2s"), dict(slow="fast")]:
            try:
                dashcam.start(**wrong)
            except ValueError as error:
                print(error)
            else:
                raise AssertionError(wrong)
        assert not dashcam.start(slow="2s")
        print(dashcam.status()["settings"]["slow"])
    """)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith('slw: found "2s", wanted one of the settings enabled, service')
    assert lines[0].endswith("is slow meant?")
    assert lines[1].startswith('slow: found "fast", wanted a limit like 500ms')
    assert lines[2] == "1s"


def test_settings_of_a_start_that_came_too_late_are_named(bench: Bench) -> None:
    """As under `dashcam run`, which starts the recorder before the program does."""
    code = """
        import dashcam
        dashcam.start()
        dashcam.start(service="billy", slow="200ms")
        dashcam.start()
    """
    result = bench.python(code)
    assert result.stderr.splitlines() == [
        "dashcam: recording has begun before this start(): its service, slow are not used; wanted as DASHCAM_SERVICE, "
        "DASHCAM_SLOW, or as flags of `dashcam run` or `attach`"]
    # What a variable gives would not have been taken from code at any time.
    result = bench.python(code, DASHCAM_SERVICE="billy")
    assert "its slow is not used; wanted as DASHCAM_SLOW, or" in result.stderr
    assert bench.python(code, DASHCAM_SERVICE="billy", DASHCAM_SLOW="1s").stderr == ""


def test_the_environment_wins_and_its_mistakes_are_reported(bench: Bench) -> None:
    result = bench.python("""
        import dashcam
        assert dashcam.start(slow="1s", keep=7)
        print(dashcam.status()["settings"]["slow"], dashcam.status()["settings"]["keep"])
    """, DASHCAM_SLOW="250ms", DASHCAM_KEEP="many")
    assert result.stdout.split() == ["250ms", "7"]
    assert 'DASHCAM_KEEP: found "many"' in result.stderr


# Setting, a wrong value, and a part of the text that names the wanted one.
WRONG = [
    ("labels", "4.2", "key=value with commas"),
    ("slow", "fast", "a limit like 500ms"),
    ("on_error", "errors>5%", "errors"),
    ("on_metric", "depth", "queue.depth>100"),
    ("openmetrics", "nowhere", "an address and a port like 127.0.0.1:9464"),
    ("memory", "9TiB", "1MiB to 4GiB"),
    ("memory", "lots", "a size like 64MiB"),
    ("window", "0.5s", "1s to 24h"),
    ("window", "long", "a positive duration"),
    ("post", "11m", "1ms to 10m"),
    ("cooldown", "1ms", "100ms to 24h"),
    ("keep", "0", "a number from 1 to 100000"),
    ("enabled", "maybe", "on or off"),
    ("keep_bytes", "1", "1MiB to 1TiB"),
    ("rate_hz", "0", "a number from 1 to 1000"),
    ("budget_percent", "200", "a number from 0.01 to 100"),
    ("switches", "perhaps", "on or off"),
    ("stacks", "2", "on or off"),
    ("metrics_series", "9000", "a number from 1 to 8192"),
    ("threads", "none", "a number from 1 to 1024"),
    ("signal", "KILL", "USR2"),
    ("per_day", "0", "a number from 1 to 100000"),
    ("repeat_after", "200h", "0s to 168h"),
    ("decay", "soon", "a positive duration"),
    ("at_exit", "sometimes", "slow, crash, always, never"),
    ("explain", "why", "on or off"),
    ("source_lines", "5", "on or off"),
    ("rollups", "hourly", "on or off"),
    ("control", "si", "on or off"),
    ("otlp", "localhost:4318", "http://HOST:PORT"),
    ("otlp", "https://localhost", "TLS is not spoken here"),
    ("otlp_share", "101", "a number from 0 to 100"),
    ("calls", "all", "on or off"),
    ("propagate", "w3c", "on or off"),
    ("otel", "jaeger", "on or off"),
]
# Any text is accepted, or it is judged when it is used.
FREE = {"service", "out", "hook"}


def test_every_flag_of_run_and_every_setting_is_in_the_tables(bench: Bench) -> None:
    shown = bench.dashcam("run", "--help").stdout
    flags = {flag.replace("-", "_") for flag in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", shown, re.M)} - {"help"}
    wanted = {name for name, *_ in WRONG} | FREE
    assert flags == wanted
    result = bench.python("""
        import dashcam
        try:
            dashcam.start(colour="red")
        except ValueError as error:
            print(error)
    """)
    settings = set(result.stdout.split("one of the settings ")[1].strip().split(", "))
    assert settings == wanted
    parameters = inspect.signature(dashcam.start).parameters
    assert set(parameters) == wanted | {"when"}


@pytest.mark.parametrize("name, value, wanted", [
    *WRONG, ("out", "", "a folder"), ("hook", "/no/such --hook", "a command that can be run"),
])
def test_a_wrong_flag_ends_before_the_program_starts(
    bench: Bench, name: str, value: str, wanted: str
) -> None:
    flag = "--" + name.replace("_", "-")
    result = bench.dashcam("run", flag, value, "--", "sh", "-c", "echo started")
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    [line] = result.stderr.splitlines()
    assert line.startswith(f'dashcam: {flag}: found "{value}", wanted '), line
    assert wanted in line and line.endswith("the program was not started (see dashcam run --help)"), line


@pytest.mark.parametrize("name, value, wanted", WRONG)
def test_a_wrong_variable_is_one_line_and_the_service_runs_on(
    bench: Bench, name: str, value: str, wanted: str
) -> None:
    variable = f"DASHCAM_{name.upper()}"
    code = "import dashcam; assert dashcam.start(); print('served', dashcam.status()['on'])"
    result = bench.python(code, **{variable: value})
    assert (result.returncode, result.stdout) == (0, "served True\n"), result.stderr
    [line] = [line for line in result.stderr.splitlines() if line.startswith("dashcam: ")]
    assert line.startswith(f'dashcam: {variable}: found "{value}", wanted ') and wanted in line, line


@pytest.mark.parametrize("variable, value, wanted", [
    ("DASHCAM_STATSD", "nowhere:port", "DASHCAM_STATSD"),
    ("DASHCAM_SLO", "1s", "wanted DASHCAM_SLOW?"),
    ("DASHCAM_KEEP_BYTE", "1GiB", "wanted DASHCAM_KEEP_BYTES?"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http://HOST:PORT"),
])
def test_variables_of_other_kinds_too(bench: Bench, variable: str, value: str, wanted: str) -> None:
    result = bench.python("import dashcam; assert dashcam.start(); print('served')", DASHCAM_OTLP="env", **{variable: value})
    assert (result.returncode, result.stdout) == (0, "served\n"), result.stderr
    [line] = [line for line in result.stderr.splitlines() if line.startswith("dashcam: ")]
    assert line.startswith(f"dashcam: {variable}: found ") and wanted in line, line


def test_wrong_variables_of_run_itself_are_one_line(bench: Bench) -> None:
    result = bench.dashcam("run", "--", "python", "-c", "print('served')", DASHCAM_CHILDREN="some",
                           PATH=f"{BIN}:/usr/bin:/bin")
    assert (result.returncode, result.stdout) == (0, "served\n"), result.stderr
    assert result.stderr == ('dashcam: DASHCAM_CHILDREN: found "some", wanted on or off (1/true/yes/on, '
                             "0/false/no/off); using off\n")


@pytest.mark.parametrize("words, code, text", [
    (["run", "--slow", "fast", "--", "true"], 2, 'slow: found "fast"'),
    (["run", "--memory", "lots", "--", "true"], 2, 'memory: found "lots"'),
    (["run", "--colour", "red", "--", "true"], 2, "unexpected argument '--colour'"),
    (["run"], 2, "required arguments"),
    (["run", "--", "no-such-command"], 127, "no-such-command: command not found"),
    (["why", "no-such-file"], 3, "no-such-file: No such file"),
    (["why", "."], 1, "no capture (*.dashcam) in ."),
    (["show", "program.py"], 3, "not a dashcam capture"),
    (["recover", "program.py"], 3, "no black box"),
])
def test_wrong_usage_has_a_clear_line_and_its_exit_code(
    bench: Bench, words: list[str], code: int, text: str
) -> None:
    bench.write("program.py", "print('hello')")
    result = bench.dashcam(*words)
    assert (result.returncode, text in result.stderr) == (code, True), result.stderr


def test_programs_that_are_not_python_run_on_with_one_notice(bench: Bench) -> None:
    result = bench.dashcam("run", "--", "sh", "-c", "echo out; exit 7")
    assert (result.returncode, result.stdout) == (7, "out\n")
    assert result.stderr.count("dashcam:") == 1 and "not a Python program" in result.stderr


def test_a_program_ended_by_a_signal_is_reported_as_such(bench: Bench) -> None:
    result = bench.dashcam("run", "--", "sh", "-c", "kill -9 $$")
    assert result.returncode == -9


def test_an_unwritable_folder_is_reported_and_the_service_runs(bench: Bench) -> None:
    bench.write("program.py", "print('served')")
    result = bench.dashcam("run", "--out", "/proc/nowhere", "--", "python", "program.py",
                           PATH=f"{BIN}:/usr/bin:/bin")
    assert (result.returncode, result.stdout) == (0, "served\n")
    assert "--out /proc/nowhere" in result.stderr and "the program runs on" in result.stderr


def other_pythons() -> "list[str]":
    """Interpreters of this machine for which this environment's wheel was not built."""
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*root.glob("*/bin/python3.[0-9]*"), *Path("/usr/bin").glob("python3.[0-9]*")]
    named = [p for p in found if re.fullmatch(r"python3\.\d+", p.name) and p.name != own]
    return [str(p) for p in sorted(named)][:3]


@pytest.mark.skipif(not other_pythons(), reason="this machine has one version of Python only")
def test_an_interpreter_without_a_wheel_runs_on_with_one_notice(bench: Bench) -> None:
    for python in other_pythons():
        result = bench.dashcam("run", "--", python, "-c", "print('served')")
        assert (result.returncode, result.stdout) == (0, "served\n"), (python, result.stderr)
        assert result.stderr.count("dashcam: not recording") == 1, (python, result.stderr)
        assert result.stderr.count("\n") == 1 and "the program runs on" in result.stderr


def test_a_program_that_cannot_read_its_library_any_more_is_recorded(bench: Bench) -> None:
    result = bench.python("""
        import sys
        sys.modules["sysconfig"] = None  # what an import finds that is refused
        import dashcam
        assert dashcam.start(slow="60s", out="out", memory="8MiB")
        with dashcam.request("GET /"):
            pass
        print(dashcam.status()["requests"])
        """)
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr
