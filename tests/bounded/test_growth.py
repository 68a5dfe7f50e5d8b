"""No function that judges what strangers wrote can be made to take more than seconds, whatever they wrote."""

from __future__ import annotations

import json
import subprocess
import sys

#: Fewer would mean that the list of inputs has been lost.
FEWEST = 140


def test_the_worst_input_of_each_judge_costs_seconds() -> None:
    """Each within a limit of processor time that stands far above what it needs and far below the square of its input."""
    finished = subprocess.run([sys.executable, "-m", "tests.bounded.worst_inputs"], check=False, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(told) >= FEWEST
    assert [name for name, seconds in told if seconds is None] == []
