"""One round of all that ``retention.json`` lets expire: runs, dead letters, artifacts, branches; plan and execution.

Runs come first: an expired run needs its artifacts no longer. Artifacts are listed before the references are read, so that
none stored meanwhile is included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gatewright.app.retention.artifact_expiry import ArtifactExpiry, ArtifactItem, ArtifactPlan
from gatewright.app.retention.branch_expiry import BranchExpiry, BranchItem
from gatewright.app.retention.dead_letter_expiry import DeadLetterExpiry, LetterItem, LetterPlan
from gatewright.app.retention.expiry_policy import ExpiryPolicy
from gatewright.app.retention.ledger_expiry import LedgerExpiry, LedgerItem, StoredEvidence
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.references import read_references
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.clock import Clock
from gatewright.git.host.run_refs import LocalRunRefs
from gatewright.git.host.user_checkout import UserCheckout


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The plan and the outcomes. A part that the policy does not name is None, or empty."""

    runs: tuple[LedgerItem, ...] | None = None
    artifacts: ArtifactPlan | None = None
    letters: LetterPlan | None = None
    branches: tuple[BranchItem, ...] | None = None
    expired_runs: tuple[ItemOutcome[LedgerItem], ...] = ()
    expired_artifacts: tuple[ItemOutcome[ArtifactItem], ...] = ()
    expired_letters: tuple[ItemOutcome[LetterItem], ...] = ()
    expired_branches: tuple[ItemOutcome[BranchItem], ...] = ()
    #: Repositories that could not be looked at.
    unreached: tuple[ItemOutcome[str], ...] = ()

    @property
    def left(self) -> int:
        """Return how many planned removals failed."""
        return sum(bool(each.code) for done in self.by_kind().values() for each in done)

    def by_kind(self) -> Mapping[str, Sequence[ItemOutcome[object]]]:
        """Return all outcomes by kind."""
        return {
            "run": self.expired_runs,
            "dead_letter": self.expired_letters,
            "artifact": self.expired_artifacts,
            "branch": self.expired_branches,
            "repository": self.unreached,
        }


@dataclass(frozen=True)
class PolicyRound:
    """``bus`` is the gatekeeper's, ``provisioner`` as named; ``repositories`` are those on this host whose branches may
    expire."""

    bus: JetStreamBus
    provisioner: Connection
    evidence: StoredEvidence
    policy: ExpiryPolicy
    clock: Clock
    person: str
    repositories: Sequence[UserCheckout] = ()

    async def play(self, *, yes: bool) -> RoundOutcome:
        """Return the plan, and with ``yes`` the outcomes. Raises GatewrightError: no later part was executed."""
        runs, expired_runs = await self._runs(yes=yes)
        letters, artifacts = None, None
        expired_letters: tuple[ItemOutcome[LetterItem], ...] = ()
        expired_artifacts: tuple[ItemOutcome[ArtifactItem], ...] = ()
        if self.policy.dead is not None or self.policy.artifacts is not None:
            sweeper = self._artifacts()
            names = await sweeper.names() if sweeper is not None else frozenset()
            references = await read_references(self.bus, self.provisioner)
            if self.policy.dead is not None:
                dead = DeadLetterExpiry(self.bus, self.provisioner, self.policy.dead.days, self.clock)
                letters = await dead.plan(references, await asyncio.to_thread(self.evidence.held))
                expired_letters = await dead.carry_out(letters.items) if yes else ()
            if sweeper is not None:
                artifacts = await sweeper.plan(names, references)
                expired_artifacts = await sweeper.carry_out(artifacts.items) if yes else ()
        branches, expired_branches = await asyncio.to_thread(self._branches, yes=yes)
        return RoundOutcome(
            runs=runs,
            artifacts=artifacts,
            letters=letters,
            branches=branches,
            expired_runs=expired_runs,
            expired_artifacts=expired_artifacts,
            expired_letters=expired_letters,
            expired_branches=expired_branches,
        )

    async def _runs(self, *, yes: bool) -> tuple[tuple[LedgerItem, ...] | None, tuple[ItemOutcome[LedgerItem], ...]]:
        if self.policy.ledger is None:
            return None, ()
        days = self.policy.ledger.days
        expiry = LedgerExpiry(self.bus, self.provisioner, self.evidence, days, self.clock, self.person)
        plan = await expiry.plan()
        return plan, await expiry.carry_out(plan) if yes else ()

    def _artifacts(self) -> ArtifactExpiry | None:
        if self.policy.artifacts is None:
            return None
        return ArtifactExpiry(self.bus, self.provisioner, self.policy.artifacts.days, self.clock)

    def _branches(self, *, yes: bool) -> tuple[tuple[BranchItem, ...] | None, tuple[ItemOutcome[BranchItem], ...]]:
        if self.policy.branches is None or not self.repositories:
            return None, ()
        items: list[BranchItem] = []
        done: list[ItemOutcome[BranchItem]] = []
        for repository in self.repositories:
            expiry = BranchExpiry(LocalRunRefs(repository), self.evidence, self.policy.branches.days, self.clock)
            plan = expiry.plan()
            items += plan
            done += expiry.carry_out(plan) if yes else ()
        return tuple(items), tuple(done)
