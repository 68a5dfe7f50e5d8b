"""The steps of CI: every one is run, none holds the others up for ever, and the failure of any is a failure of the whole."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

STEPS = Path(__file__).resolve().parents[2] / ".ci" / "steps.sh"
HANGS = "bash -c 'sleep 600 & echo $! >{pid}; wait'"


def script(*lines: str) -> list[str]:
    """A run of CI in which ``lines`` stand between the beginning and the end of the real one."""
    return ["bash", "-c", "\n".join(("set -uo pipefail", f". {STEPS}", *lines, "verdict 40"))]


def run(*lines: str) -> tuple[int, list[str]]:
    done = subprocess.run(script(*lines), capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout.splitlines()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    give_up = time.monotonic() + PATIENCE
    while alive(pid):
        if time.monotonic() > give_up:
            pytest.fail(f"{pid} still runs")
        time.sleep(0.02)


def test_steps_that_succeed_make_a_run_that_succeeds() -> None:
    code, said = run('step "one" 60 echo told', 'begin "two" 60 echo beside', 'finish "two"')
    assert code == 0
    assert [line.partition(" in ")[0] for line in said] == [
        "=== one",
        "told",
        "=== one: done",
        "=== two: begun",
        "=== two",
        "beside",
        "=== two: done",
    ]


def test_a_step_that_fails_stops_no_other_and_fails_the_run() -> None:
    code, said = run(
        'step "one" 60 ls /nowhere', 'step "two" 60 echo told', 'begin "three" 60 bash -c "echo why; exit 3"', 'finish "three"'
    )
    assert code == 1
    assert "told" in said
    first, why_first, second, why_second = said[-6:-2]
    assert (first, second) == ("--- one, its last lines:", "--- three, its last lines:")
    assert "/nowhere" in why_first
    assert why_second == "why"
    assert said[-2:] == ["FAILED: one", "FAILED: three"]


@pytest.mark.long
def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "step", tmp_path / "beside"
    here, beside = (HANGS.format(pid=pid) for pid in pids)
    code, said = run(f'begin "beside" 5 {beside}', f'step "here" 5 {here}', 'finish "beside"', 'step "after" 60 echo told')
    assert code == 1
    assert "told" in said
    assert said[-2:] == ["FAILED: here", "FAILED: beside"]
    for pid in pids:
        wait_until_gone(int(pid.read_text()))


@pytest.mark.long
def test_a_run_that_is_ended_leaves_no_step_behind(tmp_path: Path) -> None:
    pids = tmp_path / "step", tmp_path / "beside"
    here, beside = (HANGS.format(pid=pid) for pid in pids)
    with subprocess.Popen(
        script(f'begin "beside" 600 {beside}', f'step "here" 600 {here}'), stdout=subprocess.DEVNULL
    ) as running:
        give_up = time.monotonic() + PATIENCE
        while not all(pid.exists() and pid.read_text().strip() for pid in pids):
            if time.monotonic() > give_up:
                pytest.fail("the steps were not begun")
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 130
    for pid in pids:
        wait_until_gone(int(pid.read_text()))
