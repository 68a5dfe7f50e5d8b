"""No function that judges what strangers wrote can be made to take more than seconds, whatever they wrote."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: The series of inputs in parts; fewer of a part would mean that the list of inputs has been lost.
PARTS = 16
FEWEST = 8


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_the_worst_input_of_each_judge_costs_seconds(part: int) -> None:
    """Each within a limit of processor time that stands far above what it needs and far below the square of its input."""
    argv = [sys.executable, "-m", "tests.bounded.worst_inputs", f"{part}/{PARTS}"]
    finished = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(told) >= FEWEST
    assert [name for name, seconds in told if seconds is None] == []
