"""Which branches of runs expire in a repository on this host, why each of the others stays, and deleting them.

A branch expires when all that it has is on a branch of the owner's own, it is checked out nowhere, and its run is sealed, old
enough by its signed manifest, stored where bundles are kept with evidence that verifies, and on no hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewright.app.retention.expiry_policy import why_kept
from gatewright.app.retention.ledger_expiry import StoredEvidence
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.clock import Clock
from gatewright.errors import GatewrightError, GitError, UnavailableError
from gatewright.git.host.run_refs import RunRef, delete, run_refs


@dataclass(frozen=True, slots=True)
class BranchItem:
    """What is to be done about one branch, and why."""

    branch: RunRef
    action: Literal["keep", "expire"]
    why: str


@dataclass(frozen=True)
class BranchExpiry:
    """Of ``repository`` go the branches of runs that ended more than ``days`` ago, as ``evidence`` shows."""

    repository: Path
    evidence: StoredEvidence
    days: int
    clock: Clock

    def plan(self, found: Sequence[RunRef]) -> tuple[BranchItem, ...]:
        """What would be done now about each of ``found``; nothing is touched.

        Raises ConfigurationError (``holds_unreadable``), StoreError, UnavailableError (``bundle_unwritable``).
        """
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
            items.append(BranchItem(each, "keep" if why else "expire", words))
        return tuple(items)

    def carry_out(self, items: Sequence[BranchItem]) -> tuple[ItemOutcome[BranchItem], ...]:
        """Delete what is to expire, if no hold has come and it is merged still. One that is left does not stop the others.

        Raises ConfigurationError (``holds_unreadable``).
        """
        done = []
        for item in items:
            if item.action == "keep":
                continue
            try:
                with self.evidence.holds_stand_still():
                    self._delete(item.branch)
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
            else:
                done.append(ItemOutcome(item))
        return tuple(done)

    def _delete(self, branch: RunRef) -> None:
        if branch.name in self.evidence.held():
            raise UnavailableError(f"{branch.name} is on hold now", code="bundle_changed")
        now = {each.name: (each.commit, each.state) for each in run_refs(self.repository)}
        if now.get(branch.name) != (branch.commit, "merged"):
            raise GitError(f"{branch.ref} has moved, or is merged no more: make the plan again", code="ref_moved")
        delete(self.repository, branch)
