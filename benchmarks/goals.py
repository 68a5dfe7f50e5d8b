"""What is to be reached, figure by figure, and the table that puts each beside what was measured in the same go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

SMALL = "small run on a running stack / floor"
COLD = "cold `gatewright run`, s"
RATE = "runs a second, 50 in flight"
THREE_SERVERS = "the same on three synced servers / on one"
DIFF_GATE = "diff gate on 10,000 files / bare git"
LARGE = "a task on 50,000 files / on 500"
FIRST = "the first task on 50,000 files, s"
WAITING = "64 workers, waiting, %"
SANDBOXED = "64 workers, sandboxed, %"
UNDER_UP = "beyond a real test suite under `up`, s"
ALONE = "beyond a real test suite alone, s"
BESIDE = "a reviewer of 2 s and tests of 2 s on one candidate, s"
VERIFY = "`verify` of 1 GB / sha256"
GATEKEEPER = "processor time of the gatekeeper a run, ms"
AGENTS = "8 agents in one worker, MB beside their own"


@dataclass(frozen=True)
class Goal:
    """``least``: so much or more is to be reached, otherwise so much or less. ``program`` measures it."""

    figure: str
    value: float
    program: str
    least: bool = False

    def reached(self, measured: float) -> bool:
        return measured >= self.value if self.least else measured <= self.value


GOALS = (
    Goal(SMALL, 1.5, "run"),
    Goal(COLD, 1.0, "run"),
    Goal(RATE, 30.0, "run", least=True),
    Goal(THREE_SERVERS, 0.67, "three_servers", least=True),
    Goal(DIFF_GATE, 1.2, "diff_gate"),
    Goal(LARGE, 1.1, "large_repository"),
    Goal(FIRST, 5.0, "large_repository"),
    Goal(WAITING, 98.0, "scaling", least=True),
    Goal(SANDBOXED, 90.0, "scaling", least=True),
    Goal(UNDER_UP, 0.3, "beyond_suite"),
    Goal(ALONE, 0.9, "beyond_suite"),
    Goal(BESIDE, 2.3, "review_beside_tests"),
    Goal(VERIFY, 1.1, "verify_large"),
    Goal(GATEKEEPER, 25.0, "run"),
    Goal(AGENTS, 150.0, "agents"),
)


def show_goals(found: Mapping[str, float], console: Console) -> None:
    """Every goal, those that were not measured too: a row that is missing would look reached."""
    table = Table("figure", "measured", "goal", "", title="goals")
    for goal in GOALS:
        measured = found.get(goal.figure)
        if measured is None:
            row = ("-", f"not measured: python -m benchmarks.{goal.program}")
        else:
            row = (f"{measured:.2f}", "reached" if goal.reached(measured) else "not reached")
        table.add_row(goal.figure, row[0], f"{'at least ' if goal.least else ''}{goal.value:g}", row[1])
    console.print(table)
