"""Which process has which task, and which runs are silent: as the gatekeeper tells what it hears. Claims prove nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.contracts import RunList
from gatewright.contracts.run_status import MovedTarget


@dataclass(frozen=True, slots=True)
class ToldClaims:
    """What the gatekeeper heard of tasks in hand. ``silent``: by run, from when on it is silent.

    ``processes``: by run and task, which process claims it, in its own word. ``moved``: by run that waits for a person, its
    target, where the gatekeeper saw it elsewhere than where the run started.
    """

    silent: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    moved: Mapping[str, MovedTarget] = field(default_factory=dict)


def claims_of(listed: RunList) -> ToldClaims:
    """What a list of runs tells of claims."""
    silent = {run.run_id: run.silent_since for run in listed.runs if run.silent_since is not None}
    claimed = {run.run_id: {task.task_id: task.process for task in run.claimed} for run in listed.runs if run.claimed}
    moved = {run.run_id: run.moved for run in listed.runs if run.moved is not None}
    return ToldClaims(silent, claimed, moved)
