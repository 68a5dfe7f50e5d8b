"""One run as a row of the board: stage, times, tasks at work and the reason of its end. Pure.

Texts come from publishers, repositories and models. This module cuts them. The code that shows them makes them visible and
escapes them.
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
from gatewright.contracts.vocabulary import SourceBranch
from gatewright.rules.approvals import pending
from gatewright.rules.people.delegations import holders
from gatewright.run.history import FollowedRun
from gatewright.run.spending import spending_of
from gatewright.run.state import Run, RunTask
from gatewright.work_documents.request_summary import change_size, gate_standing, request_summary

#: Stages of a run for people: working, waiting for a person or for locked paths, landed, ended with a document, failed.
RunStage = Literal["running", "person", "locks", "landed", "done", "failed"]
STAGES: Final[tuple[RunStage, ...]] = get_args(RunStage)
#: Stages of an open run.
OPEN_STAGES: Final = frozenset({"running", "person", "locks"})

#: Maximum characters of a text in a row.
MOST_WORDS: Final = 400
#: Maximum paths of a run in a row.
_MOST_PATHS: Final = 20
#: Seconds without an event until an open run is silent, and seconds to add to the longest timeout of its tasks.
QUIET_SECONDS: Final = 600.0
QUIET_MARGIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class TaskInHand:
    """A dispatched task without an answer. ``pool``: pool of its processes. ``since``: RFC 3339.

    ``process``: the process that claims the task, by its own report; empty before the first claim.
    """

    task_id: str
    role: str
    pool: str
    since: str
    attempt: int
    process: str = ""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One run. ``sequence`` is the stream sequence of its last entry. Times are RFC 3339, empty where unknown.

    ``code`` and ``message``: reason of a run that did not land. ``holders``: runs that hold the paths it waits for.
    ``quiet_after``: seconds without an event until the run is silent. ``maker``: maker of the change (``command``, ``agent``,
    ...; ``several``). ``tokens`` and ``nano_usd``: reported usage. ``locked``: paths that an open run holds. ``priority``:
    priority class of its tasks. ``ordered_by``: people who ordered it, as far as known. ``change``: size of its candidate, such
    as ``2 files, 14 lines``. ``judged_ref`` and ``judged_head``: ref and commit of the change request that it judges.
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
    #: Short descriptions of the requests in ``asks``.
    summaries: tuple[ApprovalSummary, ...] = ()
    sealed: bool = False
    expired: bool = False
    quiet_after: float = QUIET_SECONDS
    maker: str = ""
    tokens: int = 0
    nano_usd: int = 0
    #: Fields whose values are lower bounds: ``tokens``, ``cost_usd``.
    least: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    priority: str = ""
    ordered_by: tuple[str, ...] = ()
    change: str = ""
    judged_ref: str = ""
    judged_head: str = ""
    #: Name of the kind of run.
    kind: str = "change"

    @property
    def title(self) -> str:
        """Return the request, after the kind of a run that is not a change."""
        return self.request if self.kind == "change" else f"{self.kind}: {self.request}"

    @property
    def is_open(self) -> bool:
        """Return whether the run has not ended."""
        return self.stage in OPEN_STAGES

    @property
    def order(self) -> tuple[str, str]:
        """Return the sort key of lists; the newest run sorts last."""
        return (self.created_at, self.run_id)


def row_of(followed: FollowedRun, sequence: int) -> BoardRow:
    """Return the row of a run. ``sequence``: stream sequence of its last entry."""
    run = followed.run
    stage = stage_of(run)
    failure, landed = run.failure, run.landed
    used = spending_of(run)
    waiting = pending(run) if not run.ended else ()
    asks = tuple(asked.request for asked in waiting)
    gates = tuple(map(gate_standing, followed.gates)) if waiting else ()
    judged = judged_branch(run)
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
        judged_ref=(judged.ref or "") if judged is not None else "",
        judged_head=judged.head if judged is not None else "",
        kind=run.kind.name,
        tokens=used.tokens,
        nano_usd=used.nano_usd,
        least=used.least,
        locked=tuple(_cut(path) for path in run.locks.paths[:_MOST_PATHS]) if run.locks is not None and not run.ended else (),
    )


def tasks_in_hand(
    run: Run, given_out: Mapping[str, str], claimed: Mapping[str, str] = MappingProxyType({})
) -> tuple[TaskInHand, ...]:
    """Return the dispatched tasks of an open run that have no answer; none for an ended run.

    Args:
        run: the run.
        given_out: task id -> time of its last dispatch.
        claimed: task id -> process that claims it.
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
    """Return ``row`` with the current claims of its tasks (task id -> process). Claims that ended are removed."""
    tasks = tuple(replace(task, process=claimed.get(task.task_id, "")) for task in row.in_hand)
    return row if tasks == row.in_hand else replace(row, in_hand=tasks)


def with_target(row: BoardRow, moved: MovedTarget | None) -> BoardRow:
    """Return ``row`` with the current target branch in its approval requests. None: the target has not moved."""
    summaries = tuple(replace_fields(each, moved=moved) for each in row.summaries)
    return row if summaries == row.summaries else replace(row, summaries=summaries)


def stage_of(run: Run) -> RunStage:
    """Return the stage of a run for people."""
    if run.ended:
        return "failed" if run.status != "SUCCESS" else "landed" if run.kind.lands else "done"
    if run.parked:
        return "person"
    return "locks" if run.waiting_for_locks else "running"


def judged_branch(run: Run) -> SourceBranch | None:
    """Return the head of the change request that the run judges, which the integrated gate compares; None without one."""
    ordered = run.contract or run.request
    return ordered.change_request if ordered is not None and run.kind.lands else None


def seconds_since(moment: str, now: datetime) -> float:
    """Return the seconds from a timestamp to ``now``, at least 0; 0 for an empty timestamp."""
    return max(0.0, (now - datetime.fromisoformat(moment)).total_seconds()) if moment else 0.0


def is_silent(row: BoardRow, now: datetime) -> bool:
    """Return whether a working run has had no event for longer than its tasks may take.

    A run that waits for a person or for paths is never silent.
    """
    return row.stage == "running" and seconds_since(row.last_at, now) > row.quiet_after


def span_of(row: BoardRow) -> float:
    """Return the seconds from the acceptance of a run to its end; 0 for an open run."""
    return seconds_since(row.created_at, datetime.fromisoformat(row.finished_at)) if row.finished_at else 0.0


def _priority(run: Run) -> str:
    ordered = run.contract or run.accepted.contract or run.request
    return ordered.priority if ordered is not None else ""


def _change_size(run: Run) -> str:
    """Return files and lines of the current or chosen candidate; empty before there is one."""
    candidate = run.seen_from(run.chosen).candidate
    return change_size(candidate.changed_files, candidate.changed_lines) if candidate is not None else ""


def _maker(run: Run) -> str:
    ordered = run.contract or run.request
    if ordered is None:
        return "not named"
    if ordered.candidates:
        return "several"
    return ordered.executor.kind if ordered.executor is not None else "not named"


def _waiting_since(followed: FollowedRun, stage: RunStage, asks: tuple[ApprovalRequest, ...]) -> str:
    match stage:
        case "person":
            return asks[0].created_at if asks else followed.run.parked_at
        case "locks":
            return followed.locks_since
        case _:
            return ""


def _quiet_after(run: Run) -> float:
    """Return the seconds without an event until the run is silent: the longest task timeout, or the default."""
    longest = max((_seconds_of(task) for task in run.tasks.values() if task.status == "RUNNING"), default=0.0)
    return max(QUIET_SECONDS, longest + QUIET_MARGIN)


def _seconds_of(task: RunTask) -> float:
    return float(task.contract.timeout_retry.timeout_sec) if task.contract is not None else 0.0


def _cut(text: str) -> str:
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 1]}…"
