"""Fleets whose truth is known: 100 seeds of drawn fleets, 1,000 captures of simulated hosts, three
processes of this machine.

DASHCAM_FLEET_SEEDS sets the number of seeds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ibis")

import limited  # noqa: E402
import rollouts  # noqa: E402
from conftest import DASHCAM, Bench  # noqa: E402
from dashcam._fleet.tables import store  # noqa: E402
from fleets import Cause, Drawn  # noqa: E402

import dashcam  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SEEDS = int(os.environ.get("DASHCAM_FLEET_SEEDS", "100"))
HOSTS = 60
OLD, NEW = {"version": "1.0"}, {"version": "2.0"}
STEADY = [Cause("refresh", 2.0, 0.8), Cause("resize", 1.0, 0.8, kind="cpu"), Cause("peer", 0.5, 1.0, kind="downstream-wait"),
          Cause("odd", 2.0, 0.8, hosts=(50, 51, 52), kind="sleep")]


def canary(host: int, day: float) -> str:
    """Twenty hosts get version 2.0 after two of four days."""
    return "2.0" if host < 20 and day >= 2 else "1.0"


@pytest.mark.seconds(3000)
def test_intervals_hold_the_truth_and_nothing_is_reported_where_nothing_changed(tmp_path: Path) -> None:
    expected = {cause.name: cause.excess_s * cause.bursts_a_day * len(cause.hosts or range(HOSTS)) for cause in STEADY[:3]}
    whole = sum(cause.excess_s * cause.bursts_a_day * len(cause.hosts or range(HOSTS)) for cause in STEADY)
    inside = dict.fromkeys(expected, 0)
    alarms = []
    for seed in range(SEEDS):
        store.write(tmp_path / "fleet", Drawn(seed, HOSTS, 4, STEADY, versions=canary).tables())
        fleet = dashcam.fleet(tmp_path / "fleet")
        for row in fleet.why().causes:
            if row["fingerprint"] in expected:
                low, high = row["share_95"]
                inside[row["fingerprint"]] += low <= 0.95 * expected[row["fingerprint"]] / whole <= high
        if found := fleet.diff(before=OLD, after=NEW).found("worse", "new"):
            alarms.append((seed, [row["fingerprint"] for row in found]))
        shutil.rmtree(tmp_path / "fleet")
    print(f"of {SEEDS} seeds: inside {inside}; alarms {alarms}")
    assert min(inside.values()) >= 0.9 * SEEDS, inside
    assert len(alarms) <= max(1, SEEDS // 100), alarms


@pytest.mark.seconds(3000)
def test_a_regression_of_three_times_is_found(tmp_path: Path) -> None:
    grown = Cause("refresh", 2.0, 2 * 0.8, versions=("2.0",))
    found = 0
    for seed in range(SEEDS):
        store.write(tmp_path / "fleet", Drawn(seed, HOSTS, 4, [*STEADY, grown], versions=canary).tables())
        rows = dashcam.fleet(tmp_path / "fleet").diff(before=OLD, after=NEW).found("worse")
        found += [row["fingerprint"] for row in rows] == ["refresh"]
        shutil.rmtree(tmp_path / "fleet")
    print(f"of {SEEDS} seeds: found {found}")
    assert found >= 0.9 * SEEDS


# Incidents in a row, more of them, hosts that differ a lot, few hosts.
ROLLOUTS = ({"burst": 3.0}, {"a_day": 1.0}, {"shape": 1.0, "is_counted": True}, {"hosts": 12, "changed": 4})


@pytest.mark.seconds(3000)
@pytest.mark.parametrize("world", ROLLOUTS, ids=str)
def test_a_rollout_that_is_asked_about_fifty_times(world: dict[str, Any]) -> None:
    alarms = [seed for seed in range(SEEDS) if rollouts.found(rollouts.drawn(seed, **world), 50, 3)]
    print(f"of {SEEDS} seeds: alarms {alarms}")
    assert len(alarms) <= max(1, SEEDS // 20), alarms


@pytest.mark.seconds(3000)
@pytest.mark.parametrize("is_counted", [False, True])
def test_a_rollout_with_three_times_the_incidents_is_stopped(is_counted: bool) -> None:
    found = [rollouts.found(rollouts.drawn(seed, grown=3.0, is_counted=is_counted), 50, 3) for seed in range(SEEDS)]
    hours = sorted(one[0] / rollouts.HOUR for one in found if one and rollouts.GROWN in one[1])
    print(f"of {SEEDS} seeds: found {len(hours)}, half of them within {hours[len(hours) // 2]} h")
    assert len(hours) >= 0.9 * SEEDS and hours[len(hours) // 2] <= 8


@pytest.mark.seconds(3000)
def test_a_thousand_simulated_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "captures"
    subprocess.run(["cargo", "run", "--quiet", "-p", "dashcam-sim", "--", "fleet", "--seed", "7", "--hosts", "1000", "--out", str(folder)],
                   cwd=ROOT, check=True)
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text("utf-8").splitlines()]
    for name in ("cut", "junk"):
        data = (folder / truth[0]["file"]).read_bytes()
        (folder / f"{name}.dashcam").write_bytes(data[:50] if name == "cut" else os.urandom(1000))
    answer = dashcam.fleet(folder).why()
    assert (answer.totals["captures"], answer.totals["hosts"], answer.totals["refused"]) == (1000, 1000, 2)
    [defect] = {line["cause"] for line in truth if line["version"] == "2.0" and int(line["file"][5:9]) % 10 != 9}
    sick = [line for line in truth if line["version"] == "2.0" and line["cause"] == defect]
    first = answer.causes[0]
    places = {place for line in sick for place in line["places"]}
    assert first["cause"] == defect and first["place_function"] in places, answer.text
    assert 0.9 * len(sick) <= first["hosts"] <= 1.1 * len(sick), answer.text
    found = dashcam.fleet(folder).diff(before={"version": "1.9"}, after={"version": "2.0"}).found("worse", "new")
    assert found and found[0]["fingerprint"] == first["fingerprint"]


def test_a_newcomer_with_three_processes(bench: Bench, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "fleet.md").read_text("utf-8")
    bench.write("shop.py", guide.split("```python\n")[1].split("```")[0])
    words = ["run", "--slow", "100ms", "--service", "shop", "--out", "captures"]
    for version in ("4.1", "4.1"):
        result = bench.dashcam(*words, "--labels", f"version={version}", "--", sys.executable, "shop.py")
        assert result.returncode == 0 and "captured" not in result.stderr, result.stderr
    sick = bench.dashcam(*words, "--labels", "version=4.2", "--", sys.executable, "shop.py", RELEASE="new")
    assert "captured" in sick.stderr, sick.stderr
    answer = bench.dashcam("fleet", "why", "captures", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert answer.returncode == 0, answer.stderr
    assert "1. shop  sleep  shop.py refresh_prices(): " in answer.stdout and "version 4.2" in answer.stdout, answer.stdout
    [line] = [line for line in answer.stdout.splitlines() if "worst: dashcam why " in line]
    worst = limited.run([DASHCAM, "why", line.split("dashcam why ")[1]], 60, cwd=bench.folder, capture_output=True, text=True)
    assert "refresh_prices" in worst.stdout


@pytest.mark.parametrize("seed", [7, 8, 9, 10])
def test_the_defect_of_simulated_hosts_whose_files_were_renamed_is_no_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "captures"
    subprocess.run(["cargo", "run", "--quiet", "-p", "dashcam-sim", "--", "fleet", "--seed", str(seed), "--hosts", "60", "--renamed", "--out", str(folder)],
                   cwd=ROOT, check=True)
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text("utf-8").splitlines()]
    cause = max({line["cause"] for line in truth}, key=[line["cause"] for line in truth].count)
    with dashcam.fleet(folder) as fleet:
        found = fleet.diff(before={"version": "1.9"}, after={"version": "2.0"})
    assert not found.found("worse", "new", "gone"), found.text
    moved = found.found("moved")
    assert cause in {row["cause"] for row in moved} and all("_renamed.py" in row["place_file"] for row in moved), found.text
