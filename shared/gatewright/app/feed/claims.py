"""The process of each task, and the silent runs, as reported by the gatekeeper. Claims prove nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.contracts import RunList
from gatewright.contracts.run_status import MovedTarget


@dataclass(frozen=True, slots=True)
class ReportedClaims:
    """The gatekeeper's view of tasks in progress. ``silent``: by run, since when no claim arrives.

    ``processes``: by run and task, the process that claims it, unverified. ``moved``: by run that waits for a person, its
    target, if the gatekeeper saw it at another commit than the run's start.
    """

    silent: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    moved: Mapping[str, MovedTarget] = field(default_factory=dict)


def claims_of(listed: RunList) -> ReportedClaims:
    """Return the claims in a list of runs."""
    silent = {run.run_id: run.silent_since for run in listed.runs if run.silent_since is not None}
    claimed = {run.run_id: {task.task_id: task.process for task in run.claimed} for run in listed.runs if run.claimed}
    moved = {run.run_id: run.moved for run in listed.runs if run.moved is not None}
    return ReportedClaims(silent, claimed, moved)
