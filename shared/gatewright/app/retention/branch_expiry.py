"""Expiry of run branches in a repository: which expire, why the others stay, and their deletion.

A branch expires if a branch of the owner contains it, it is checked out nowhere, and its run is sealed, old enough by its
signed manifest, stored where bundles are kept with evidence that verifies, and on no hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gatewright.app.retention.expiry_policy import why_kept
from gatewright.app.retention.ledger_expiry import StoredEvidence
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.clock import Clock
from gatewright.errors import GatewrightError, GitError, UnavailableError
from gatewright.git.host.run_refs import RunRef


class RunRefs(Protocol):
    """The branches of runs in one repository. All of it raises GitError."""

    @property
    def place(self) -> str:
        """Return the location of the repository."""

    def found(self) -> Sequence[RunRef]:
        """Return all run branches."""

    def again(self, name: str) -> RunRef | None:
        """Return the current state of one branch; None if it is gone."""

    def delete(self, found: RunRef) -> None:
        """Delete it, if it still is at that commit."""


@dataclass(frozen=True, slots=True)
class BranchItem:
    """The planned action for one branch, with the reason."""

    branch: RunRef
    action: Literal["keep", "expire"]
    why: str
    repository: str


def _report_nothing(_done: ItemOutcome[BranchItem]) -> None:
    """Do nothing, for callers that only use the returned outcomes."""


def _to_the_end() -> bool:
    return False


@dataclass(frozen=True)
class BranchExpiry:
    """Expires those of ``branches`` whose runs ended more than ``days`` ago, as ``evidence`` shows."""

    branches: RunRefs
    evidence: StoredEvidence
    days: int
    clock: Clock

    def plan(self) -> tuple[BranchItem, ...]:
        """Return what would be done now about each branch, without changes.

        Raises GitError, ConfigurationError (``holds_unreadable``), StoreError, UnavailableError (``bundle_unwritable``).
        """
        found = self.branches.found()
        stored = {entry.run_id: entry for entry in self.evidence.bundles({each.name for each in found})}
        held, now, items = self.evidence.held(), self.clock.now(), []
        for each in found:
            entry = stored.get(each.name)
            why: str = "no bundle of its run is stored here"
            if each.state != "merged":
                why = each.state
            elif entry is not None:
                why = why_kept(entry, held, self.days, now)
                if not why and (fault := self.evidence.fault(entry)):
                    why = f"its bundle does not verify ({fault}): look at it first"
            words = why or f"merged, sealed, and over for more than {self.days} days"
            items.append(BranchItem(each, "keep" if why else "expire", words, self.branches.place))
        return tuple(items)

    def carry_out(
        self,
        items: Sequence[BranchItem],
        report: Callable[[ItemOutcome[BranchItem]], None] = _report_nothing,
        stopped: Callable[[], bool] = _to_the_end,
    ) -> tuple[ItemOutcome[BranchItem], ...]:
        """Delete the branches to expire that have no new hold and are still merged. A failure of one does not stop the others.

        ``report`` is called with each outcome; once ``stopped`` returns True no further one is begun.
        """
        done = []
        for item in items:
            if item.action == "keep":
                continue
            if stopped():
                break
            try:
                self._delete(item.branch)
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
            else:
                done.append(ItemOutcome(item))
            report(done[-1])
        return tuple(done)

    def _delete(self, branch: RunRef) -> None:
        now = self.branches.again(branch.name)
        if now is None or (now.commit, now.state) != (branch.commit, "merged"):
            raise GitError(f"{branch.ref} has moved, or is merged no more: make the plan again", code="ref_moved")
        with self.evidence.holds_stand_still():
            if branch.name in self.evidence.held():
                raise UnavailableError(f"{branch.name} is on hold now", code="bundle_changed")
            self.branches.delete(branch)
