"""A merge queue for people and programs: its view as a document, and sentences and drawings of that view. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from gatewright.contracts.merge_queue import MergeEnding, MergeEntry, MergeHold, MergePosition, MergeQueueView, PositionState
from gatewright.contracts.queue_policy import HoldReason, LeaveCode
from gatewright.queue.state import Position, Queue
from gatewright.view.rows import seconds_since
from gatewright.view.safe_text import duration_words, fit, printable

#: Maximum characters of a title, and maximum runs that landed or left in a view.
MOST_TITLE: Final = 120
MOST_ENDINGS: Final = 10
_COLUMNS: Final = 80

_HOLDS: Final[Mapping[HoldReason | str, str]] = {
    "infrastructure": "tests or pushes do not work",
    "target_rewritten": "the branch was rewritten outside the queue",
    "by_person": "an operator holds it",
    "repeated_red": "the branch is red without any entry",
}
_LEAVES: Final[Mapping[LeaveCode | str, str]] = {
    "landed": "landed",
    "tests_failed": "its tests failed",
    "tests_timed_out": "its tests timed out",
    "conflict_with_ahead": "a change ahead has the same paths",
    "scope_after_merge": "its commit would change paths outside its contract",
    "approval_void": "an approval no longer applies to its change",
    "aborted": "a person took it out",
    "superseded": "a newer run replaces it",
    "target_missing": "the branch is gone",
    "policy_changed": "the policy has no queue for the branch any more",
    "budget_exceeded": "it took part in as many tests as the policy permits",
    "requeue_exhausted": "it was queued as often as the policy permits",
}
_STATES: Final[Mapping[PositionState, str]] = {
    "composing": "composing",
    "waiting": "waits for tests",
    "testing": "testing",
    "passed": "passed",
    "failed": "tests failed",
    "landing": "landing",
}


def queue_view(queue_id: str, queue: Queue, titles: Mapping[str, str], *, signed_actions: bool = False) -> MergeQueueView:
    """Return the view of a queue with everything in it.

    Args:
        queue_id: id of the queue, 20 hex digits.
        queue: its state.
        titles: run id -> text of its request; a run without one has an empty title.
        signed_actions: whether its policy requires signed actions.
    """
    numbers = {run_id: each.number for each in queue.line for run_id in each.runs}
    recent = tuple(queue.ended.items())[: -MOST_ENDINGS - 1 : -1]
    return MergeQueueView(
        queue_id=queue_id,
        repository=queue.repository,
        branch=queue.branch.removeprefix("refs/heads/"),
        base=queue.base.commit,
        window=queue.window,
        length=len(queue.entries),
        positions=tuple(_position_view(queue, each) for each in queue.line),
        entries=tuple(
            MergeEntry(
                run_id=run_id,
                title=fit(" ".join(titles.get(run_id, "").split()), MOST_TITLE),
                publisher=each.entry.publisher,
                lane=each.entry.lane,
                enqueued_at=each.entry.enqueued_at,
                place=place,
                changed_paths=len(each.footprint.paths),
                position=numbers.get(run_id, 0),
                overtaken=each.overtaken,
                requeues=each.entry.requeues,
            )
            for place, (run_id, each) in enumerate(queue.entries.items(), 1)
        ),
        endings=tuple(MergeEnding(run_id=run_id, outcome=outcome) for run_id, outcome in recent),
        held=MergeHold(reason=queue.held, detail=queue.hold_detail, by=queue.held_by) if queue.held else None,
        actions=queue.actions,
        signed_actions=signed_actions,
    )


def limited_view(view: MergeQueueView, visible: Collection[str]) -> MergeQueueView:
    """Return ``view`` with the runs ``visible`` only. Other queued runs are counted; those that landed or left are not."""
    return replace(
        view,
        positions=tuple(_limited_position(each, visible) for each in view.positions),
        entries=tuple(each for each in view.entries if each.run_id in visible),
        endings=tuple(each for each in view.endings if each.run_id in visible),
    )


def hold_words(hold: MergeHold) -> str:
    """Return why a queue is held: ``held by ana: release freeze``. An unknown reason stands for itself."""
    by = f" by {hold.by}" if hold.by else ""
    why = hold.detail or (_HOLDS.get(hold.reason, hold.reason) if not hold.by else "")
    return printable(f"held{by}: {why}" if why else f"held{by}")


def ending_words(ending: MergeEnding) -> str:
    """Return how a run ended: ``landed``, or ``left: its tests failed``. An unknown code stands for itself."""
    why = _LEAVES.get(ending.outcome, printable(ending.outcome))
    return why if ending.outcome == "landed" else f"left: {why}"


def position_words(position: MergePosition, now: datetime | None = None) -> str:
    """Return the state of a position: ``testing for 2 min``; without ``now``: ``testing``."""
    since = f" for {duration_words(seconds_since(position.since, now))}" if position.since and now is not None else ""
    return _STATES[position.state] + since


def place_words(view: MergeQueueView, run_id: str, now: datetime | None = None) -> str:
    """Return where a run stands: ``3rd of 5, behind run-7; position 4: testing for 2 min``. Empty for a run that is not queued.

    The run ahead is named only where the view has it. Without ``now``, the result has no durations.
    """
    entry = next((each for each in view.entries if each.run_id == run_id), None)
    if entry is None:
        return ""
    ahead = next((f", behind {each.run_id}" for each in view.entries if each.place == entry.place - 1), "")
    position = next((each for each in view.positions if each.number == entry.position), None)
    state = f"position {position.number}: {position_words(position, now)}" if position is not None else "in no position yet"
    held = f"; the queue is {hold_words(view.held)}" if view.held is not None else ""
    return f"{ordinal(entry.place)} of {view.length}{ahead}; {state}{held}"


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    endings = {1: "st", 2: "nd", 3: "rd"} if number % 100 not in {11, 12, 13} else {}
    return f"{number}{endings.get(number % 10, 'th')}"


def summary_words(view: MergeQueueView) -> str:
    """Return the size and state of a queue: ``5 queued, 2 positions, held by ana: release freeze``."""
    positions = f"{len(view.positions)} position{'' if len(view.positions) == 1 else 's'}"
    held = f", {hold_words(view.held)}" if view.held is not None else ""
    return f"{view.length} queued, {positions}{held}"


def line_drawing(view: MergeQueueView, now: datetime) -> list[str]:
    """Draw the speculative line in at most 80 columns: base, positions with their runs, waiting entries, last endings."""
    lines = [fit(printable(f"{view.branch} of {view.repository}"), _COLUMNS), f"queue {view.queue_id}"]
    if view.held is not None:
        lines.append(fit(hold_words(view.held), _COLUMNS))
    if view.signed_actions:
        lines.append("actions require a signature")
    lines += ["", f"base {view.base[:12]}"]
    for position in view.positions:
        lines.append(f" ├ position {position.number}: {position_words(position, now)}")
        lines += [f" │   {_entry_words(each)}" for each in view.entries if each.position == position.number]
        if position.others:
            lines.append(f" │   {_others_words(position.others)}")
    waiting = [each for each in view.entries if not each.position]
    hidden = view.length - len(view.entries) - sum(each.others for each in view.positions)
    lines.append(" └ waiting" if waiting or hidden else " └ nothing waits")
    lines += [f"     {_entry_words(each)}" for each in waiting]
    if hidden:
        lines.append(f"     {_others_words(hidden)}")
    if view.endings:
        lines += ["", "ended last", *(f"  {each.run_id}  {ending_words(each)}" for each in view.endings)]
    return lines


def _position_view(queue: Queue, position: Position) -> MergePosition:
    test = queue.tests.get(position.tree)
    return MergePosition(
        number=position.number,
        runs=position.runs,
        state=_state_of(queue, position),
        tree=position.tree or None,
        since=test.at if test is not None else None,
    )


def _state_of(queue: Queue, position: Position) -> PositionState:
    if position in queue.until(queue.landing):
        return "landing"
    if not position.tree:
        return "composing"
    if position.tree in queue.tests:
        return "testing"
    result = queue.results.get(position.tree)
    if result is None:
        return "waiting"
    return "passed" if result.green else "failed"


def _limited_position(position: MergePosition, visible: Collection[str]) -> MergePosition:
    runs = tuple(run_id for run_id in position.runs if run_id in visible)
    return replace(position, runs=runs, others=len(position.runs) - len(runs))


def _entry_words(entry: MergeEntry) -> str:
    lane = f"{entry.lane} lane" if entry.lane != "normal" else ""
    overtaken = f"overtaken by {entry.overtaken}" if entry.overtaken else ""
    notes = ", ".join(filter(None, (lane, overtaken)))
    words = f"{entry.place}. {entry.run_id}  {printable(entry.title)}".rstrip()
    width = _COLUMNS - 5 - (len(notes) + 3 if notes else 0)
    return f"{fit(words, width)}{f' ({notes})' if notes else ''}"


def _others_words(number: int) -> str:
    return f"and {number} {'run' if number == 1 else 'runs'} of other publishers"
