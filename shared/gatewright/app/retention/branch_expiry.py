"""Which branches of runs expire in a repository, why each of the others stays, and deleting them.

A branch expires when all that it has is on a branch of the owner's own, it is checked out nowhere, and its run is sealed, old
enough by its signed manifest, stored where bundles are kept with evidence that verifies, and on no hold.
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
        """Where the repository is."""

    def found(self) -> Sequence[RunRef]:
        """All of them."""

    def again(self, name: str) -> RunRef | None:
        """One of them as it is now; None where there is none any more."""

    def delete(self, found: RunRef) -> None:
        """Delete it, if it still is at that commit."""


@dataclass(frozen=True, slots=True)
class BranchItem:
    """What is to be done about one branch, and why."""

    branch: RunRef
    action: Literal["keep", "expire"]
    why: str
    repository: str


def _untold(_done: ItemOutcome[BranchItem]) -> None:
    """For callers who look at what became of all of them."""


def _to_the_end() -> bool:
    return False


@dataclass(frozen=True)
class BranchExpiry:
    """Of ``branches`` go those of runs that ended more than ``days`` ago, as ``evidence`` shows."""

    branches: RunRefs
    evidence: StoredEvidence
    days: int
    clock: Clock

    def plan(self) -> tuple[BranchItem, ...]:
        """What would be done now about each of the branches; nothing is touched.

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
        told: Callable[[ItemOutcome[BranchItem]], None] = _untold,
        stopped: Callable[[], bool] = _to_the_end,
    ) -> tuple[ItemOutcome[BranchItem], ...]:
        """Delete what is to expire, if no hold has come and it is merged still. One that is left does not stop the others.

        ``told`` hears of each at once; once ``stopped`` says so no further one is begun.
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
            told(done[-1])
        return tuple(done)

    def _delete(self, branch: RunRef) -> None:
        now = self.branches.again(branch.name)
        if now is None or (now.commit, now.state) != (branch.commit, "merged"):
            raise GitError(f"{branch.ref} has moved, or is merged no more: make the plan again", code="ref_moved")
        with self.evidence.holds_stand_still():
            if branch.name in self.evidence.held():
                raise UnavailableError(f"{branch.name} is on hold now", code="bundle_changed")
            self.branches.delete(branch)
