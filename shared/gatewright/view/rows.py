"""One run as a line of the board: where it stands, since when, who has what in hand, and why it ended. Pure.

Texts come from publishers, repositories and models. They are cut here, and made visible and escaped by what shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, get_args

from msgspec.structs import replace as replace_fields

from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalSummary
from gatewright.contracts.run_status import MovedTarget
from gatewright.rules.approvals import pending
from gatewright.rules.people.delegations import holders
from gatewright.run.history import FollowedRun
from gatewright.run.spending import spending_of
from gatewright.run.state import Run, RunTask
from gatewright.work_documents.request_summary import change_size, gate_standing, request_summary

#: Where a run stands for people: at work, waiting for a person, waiting for paths that others hold, landed, ended otherwise.
RunStage = Literal["running", "person", "locks", "landed", "failed"]
STAGES: Final[tuple[RunStage, ...]] = get_args(RunStage)
#: The stages of a run that goes on.
OPEN_STAGES: Final = frozenset({"running", "person", "locks"})

#: Characters of a text that a line keeps.
MOST_WORDS: Final = 400
#: Paths of one run that a line names.
_MOST_PATHS: Final = 20
#: Seconds without an event after which an open run is called silent, and what is added to the longest time that its tasks have.
QUIET_SECONDS: Final = 600.0
QUIET_MARGIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class TaskInHand:
    """A task that was given out and not answered. ``pool`` is the pool whose processes do it; ``since`` is RFC 3339.

    ``process``: the one that claims it, in its own word; empty where none has said so, as within the first beat.
    """

    task_id: str
    role: str
    pool: str
    since: str
    attempt: int
    process: str = ""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One run. ``sequence`` is the stream sequence of its last entry; times are RFC 3339, empty where there is none.

    ``code`` and ``message`` are those of a run that did not land. ``holders`` are the runs whose paths it waits for.
    ``quiet_after``: seconds without an event after which it is silent. ``maker``: who makes the change (``command``, ``agent``,
    ...; ``several``). ``tokens`` and ``nano_usd`` are what was reported, ``locked`` the paths that an open run holds.
    ``priority`` is the class that its tasks wait in. ``ordered_by`` are the people who ordered it, as far as known.
    ``change`` is the size of its candidate, such as ``2 files, 14 lines``.
    """

    run_id: str
    sequence: int
    stage: RunStage
    state: str
    attempt: int
    publisher: str
    repository: str
    request: str
    created_at: str
    last_at: str
    finished_at: str = ""
    code: str = ""
    message: str = ""
    landed_ref: str = ""
    landed_commit: str = ""
    in_hand: tuple[TaskInHand, ...] = ()
    holders: tuple[str, ...] = ()
    waiting_since: str = ""
    asks: tuple[ApprovalRequest, ...] = ()
    asked: tuple[tuple[str, ...], ...] = ()
    #: What each of ``asks`` is about, in brief.
    summaries: tuple[ApprovalSummary, ...] = ()
    sealed: bool = False
    expired: bool = False
    quiet_after: float = QUIET_SECONDS
    maker: str = ""
    tokens: int = 0
    nano_usd: int = 0
    #: Which of them are lower bounds: ``tokens``, ``cost_usd``.
    least: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    priority: str = ""
    ordered_by: tuple[str, ...] = ()
    change: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.stage in OPEN_STAGES

    @property
    def order(self) -> tuple[str, str]:
        """What lists are sorted by, the newest last."""
        return (self.created_at, self.run_id)


def row_of(followed: FollowedRun, sequence: int) -> BoardRow:
    """The line of a run whose last entry has this stream sequence."""
    run = followed.run
    stage = stage_of(run)
    failure, landed = run.failure, run.landed
    used = spending_of(run)
    waiting = pending(run) if not run.ended else ()
    asks = tuple(asked.request for asked in waiting)
    gates = tuple(map(gate_standing, followed.gates)) if waiting else ()
    return BoardRow(
        run_id=run.run_id,
        sequence=sequence,
        stage=stage,
        state=run.state,
        attempt=run.attempt,
        publisher=run.publisher,
        repository=_cut(run.accepted.repository_url),
        request=_cut(" ".join(run.accepted.user_request.split())),
        created_at=run.created_at,
        last_at=run.at,
        finished_at=run.finished_at,
        code=failure.code if failure else "",
        message=_cut(failure.message) if failure else "",
        landed_ref=_cut(landed.ref) if landed else "",
        landed_commit=landed.commit if landed else "",
        in_hand=tasks_in_hand(run, followed.dispatched),
        holders=followed.lock_holders if stage == "locks" else (),
        waiting_since=_waiting_since(followed, stage, asks),
        asks=asks,
        asked=tuple(holders(each) for each in waiting),
        summaries=tuple(request_summary(run, each, gates) for each in waiting),
        sealed=run.sealed is not None,
        expired=run.expired is not None,
        quiet_after=_quiet_after(run),
        maker=_maker(run),
        priority=_priority(run),
        ordered_by=tuple(_cut(name) for name in run.accepted.orderers),
        change=_change_size(run),
        tokens=used.tokens,
        nano_usd=used.nano_usd,
        least=used.least,
        locked=tuple(_cut(path) for path in run.locks.paths[:_MOST_PATHS]) if run.locks is not None and not run.ended else (),
    )


def tasks_in_hand(
    run: Run, given_out: Mapping[str, str], claimed: Mapping[str, str] = MappingProxyType({})
) -> tuple[TaskInHand, ...]:
    """What of an open run was given out and not answered; nothing of one that has ended.

    ``given_out``: by task, when it last was; ``claimed``: by task, which process claims it.
    """
    if run.ended:
        return ()
    running = (task for task in run.tasks.values() if task.status == "RUNNING")
    return tuple(
        TaskInHand(
            task.task_id, task.role, task.pool, given_out.get(task.task_id, ""), task.attempt, claimed.get(task.task_id, "")
        )
        for task in running
    )


def with_processes(row: BoardRow, claimed: Mapping[str, str]) -> BoardRow:
    """``row`` with the processes that claim its tasks, by task; what is no longer claimed is named no more."""
    tasks = tuple(replace(task, process=claimed.get(task.task_id, "")) for task in row.in_hand)
    return row if tasks == row.in_hand else replace(row, in_hand=tasks)


def with_target(row: BoardRow, moved: MovedTarget | None) -> BoardRow:
    """``row`` with where its target was last seen, in what people are asked; None: the target stands where the run started."""
    summaries = tuple(replace_fields(each, moved=moved) for each in row.summaries)
    return row if summaries == row.summaries else replace(row, summaries=summaries)


def stage_of(run: Run) -> RunStage:
    """Where a run stands for people."""
    if run.ended:
        return "landed" if run.status == "SUCCESS" else "failed"
    if run.parked:
        return "person"
    return "locks" if run.waiting_for_locks else "running"


def seconds_since(moment: str, now: datetime) -> float:
    """Seconds from a timestamp to ``now``, none below zero; 0 for an empty one."""
    return max(0.0, (now - datetime.fromisoformat(moment)).total_seconds()) if moment else 0.0


def is_silent(row: BoardRow, now: datetime) -> bool:
    """Whether a run that waits neither for a person nor for paths has shown no sign for longer than its tasks may take."""
    return row.stage == "running" and seconds_since(row.last_at, now) > row.quiet_after


def span_of(row: BoardRow) -> float:
    """Seconds from the acceptance of a run to its end; 0 while it goes on."""
    return seconds_since(row.created_at, datetime.fromisoformat(row.finished_at)) if row.finished_at else 0.0


def _priority(run: Run) -> str:
    ordered = run.contract or run.accepted.contract or run.request
    return ordered.priority if ordered is not None else ""


def _change_size(run: Run) -> str:
    """Files and lines of the candidate that stands, or of the one that was chosen; empty before there is one."""
    candidate = run.seen_from(run.chosen).candidate
    return change_size(candidate.changed_files, candidate.changed_lines) if candidate is not None else ""


def _maker(run: Run) -> str:
    ordered = run.contract or run.request
    if ordered is None:
        return "not said"
    if ordered.candidates:
        return "several"
    return ordered.executor.kind if ordered.executor is not None else "not said"


def _waiting_since(followed: FollowedRun, stage: RunStage, asks: tuple[ApprovalRequest, ...]) -> str:
    match stage:
        case "person":
            return asks[0].created_at if asks else followed.run.parked_at
        case "locks":
            return followed.locks_since
        case _:
            return ""


def _quiet_after(run: Run) -> float:
    """A task may be silent for as long as it has; what has not said how long is given the usual time."""
    longest = max((_seconds_of(task) for task in run.tasks.values() if task.status == "RUNNING"), default=0.0)
    return max(QUIET_SECONDS, longest + QUIET_MARGIN)


def _seconds_of(task: RunTask) -> float:
    return float(task.contract.timeout_retry.timeout_sec) if task.contract is not None else 0.0


def _cut(text: str) -> str:
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 1]}…"
