"""Facts about the board that all open pages need, computed once for all of them.

Fifty pages request the same facts at each step of a run. A result is valid until something changes, and at most for a
second, because some of it depends on the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from gatewright.app.feed.follower import BoardFollower
from gatewright.contracts.people.approvals import ApprovalSummary
from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter, counts_of
from gatewright.view.needs import Need, needs_of
from gatewright.view.resuming import BoardChanges, BoardResync, changes_since
from gatewright.view.rows import BoardRow, RunStage

DrawRow = Callable[[BoardRow], str]
Answer = TypeVar("Answer")
_LONGEST = timedelta(seconds=1)


class CommonLook:
    """A cached view of ``follower``; ``draw`` renders the row of a run."""

    def __init__(self, follower: BoardFollower, draw: DrawRow, now: Callable[[], datetime]) -> None:
        self.follower = follower
        self._draw, self._now = draw, now
        #: The state that the results belong to: everything that changes between two of them, also within one batch; and its
        #: time.
        self._of: tuple[int, str, int] | None = None
        self._at = datetime.min.replace(tzinfo=UTC)
        self._answers: dict[Hashable, Any] = {}

    @property
    def board(self) -> Board:
        """The one that is followed."""
        return self.follower.board

    def changes(self, origin: str, sequence: int, chosen: BoardFilter) -> BoardChanges | BoardResync:
        """See ``changes_since``."""
        return self._once(("changes", origin, sequence, chosen), lambda: changes_since(self.board, origin, sequence, chosen))

    def counts(self, chosen: BoardFilter) -> Mapping[RunStage, int]:
        """See ``counts_of``."""
        return self._once(("counts", chosen), lambda: counts_of(self.board, chosen))

    def needs(self) -> tuple[int, str]:
        """Return the number of needs, and their fingerprint."""
        return self._once(("needs",), self._needs)

    def claimed(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by run, the processes that claim its tasks and the new commit of its target; runs without either are left
        out."""
        return self._once(("claimed",), lambda: _claims_by_run(self.board))

    def drawn(self, row: BoardRow) -> str:
        """The line of a run of the board."""
        return self._once(("row", row.run_id), lambda: self._draw(row))

    def _needs(self) -> tuple[int, str]:
        needs = needs_of(self.board, self.follower.letters, self._now(), self.follower.silent)
        return len(needs), fingerprint(needs)

    def _once(self, key: Hashable, work_out: Callable[[], Answer]) -> Answer:
        now, of = self._now(), (self.follower.revision, self.board.origin, self.board.sequence)
        if of != self._of or not timedelta() <= now - self._at <= _LONGEST:
            self._answers.clear()
            self._of, self._at = of, now
        if key not in self._answers:
            self._answers[key] = work_out()
        answer: Answer = self._answers[key]
        return answer


def fingerprint(needs: Sequence[Need]) -> str:
    """Return a fingerprint of the needs; it changes if a need is delegated, gets a comment, or its target moves."""
    words = "\0".join(f"{need.key}\0{need.who}\0{_news(need.summary)}" for need in needs)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _news(summary: ApprovalSummary | None) -> str:
    """Return what may change about a request while it waits."""
    if summary is None:
        return ""
    return f"{len(summary.comments)} {summary.moved.found if summary.moved is not None else '-'}"


def _claims_by_run(board: Board) -> dict[str, tuple[str, ...]]:
    names_by_run = {row.run_id: (*(task.process for task in row.in_hand), *_targets(row)) for row in board.rows.values()}
    return {run_id: names for run_id, names in names_by_run.items() if any(names)}


def _targets(row: BoardRow) -> tuple[str, ...]:
    return tuple(f"{each.moved.ref} {each.moved.found}" for each in row.summaries if each.moved is not None)
