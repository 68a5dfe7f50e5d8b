"""People with SSH keys, rules that ask them, and a gatekeeper with both: a run that waits for an answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatewright.clock import Clock, timestamp
from gatewright.contracts import ApprovalDecision, ApprovalRequest, DecisionBatch, DecisionReply, TaskContract, codec
from gatewright.contracts.people.approvals import DecisionVerdict, SignedDecision
from gatewright.resources import policy_directory
from gatewright.rules.approvals import NAMESPACE, decision_on, pending
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.intake.approvals import ApprovalService
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.ssh_signatures import public_line, sign_ssh
from gatewright.telemetry.logs import make_logger
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import Repository

Files = dict[str, bytes | None]
KEYS = {name: Ed25519PrivateKey.generate() for name in ("ana", "ben", "eve", "old")}
WEEK = 7 * 86_400
LANDING: dict[str, object] = {
    "name": "landing", "reason": "landing", "risk": "medium", "approvers": ["ana", "@release"], "within_seconds": WEEK,
}  # fmt: skip
README: Files = {"README.md": b"another text\n"}


def roster() -> dict[str, object]:
    """Ana, and her key of before, which is revoked; Ben, who is in the group release and writes as ``ben@example.org``."""
    old = {"key": public_line(KEYS["old"]), "revoked_at": "2026-01-01T00:00:00+00:00"}
    ana = {"name": "ana", "keys": [{"key": public_line(KEYS["ana"])}, old]}
    ben = {"name": "ben", "keys": [{"key": public_line(KEYS["ben"])}], "groups": ["release"], "accounts": ["ben@example.org"]}
    return {"version": "1", "people": [ana, ben]}


def policies_with(folder: Path, *rules: dict[str, object], people: dict[str, object] | None = None) -> Path:
    """The delivered policies, and these rules."""
    shutil.copytree(policy_directory(), folder)
    (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": rules}))
    (folder / "approvers.json").write_text(json.dumps(people or roster()))
    return folder


def signed(decision: ApprovalDecision, key: str = "ana", *, namespace: str = NAMESPACE) -> SignedDecision:
    """A decision as a person sends it."""
    data = codec.encode(decision)
    return SignedDecision(document=data.decode(), signature=sign_ssh(KEYS[key], namespace, data))


@dataclass
class Inbox:
    """A gatekeeper with people, and what approvers may ask of it."""

    gatekeeper: Gatekeeper
    service: ApprovalService
    clock: Clock

    async def run(self) -> Run:
        return await self.gatekeeper.run()

    async def asked(self, number: int = 0) -> ApprovalRequest:
        """What waits for an answer."""
        return pending(await self.run())[number].request

    async def decide(self, *decisions: SignedDecision) -> DecisionReply:
        return await self.service.decide(codec.encode(DecisionBatch(decisions=decisions)))

    async def said(self, verdict: DecisionVerdict = "approve", person: str = "ana", **words: str) -> ApprovalDecision:
        """An honest answer to the first question."""
        return decision_on(await self.asked(), verdict=verdict, person=person, decided_at=timestamp(self.clock.now()), **words)

    async def to_the_candidate(self, **changes: object) -> Run:
        """A run that has done all its work."""
        await self.submit(**changes)
        return await self.work()

    def contract(self, **changes: object) -> TaskContract:
        """One that a person has ordered who is none of the roster, unless ``changes`` say otherwise."""
        return contract_on(self.gatekeeper.repository, **{"ordered_by": ("dispatcher@example.org",), **changes})

    async def submit(self, **changes: object) -> Run:
        await self.gatekeeper.submit(self.contract(**changes))
        return await self.gatekeeper.plan()

    async def work(self, files: Files | None = None) -> Run:
        await self.gatekeeper.work(self.gatekeeper.patch(files or README))
        await self.gatekeeper.review()
        return await self.gatekeeper.test()


@asynccontextmanager
async def open_inbox(
    repository: Repository,
    folder: Path,
    *rules: dict[str, object],
    clock: Clock,
    people: dict[str, object] | None = None,
    owners: str | None = None,
    beat: int | None = None,
    adapt: Callable[[Path], None] | None = None,
) -> AsyncIterator[Inbox]:
    """A gatekeeper whose policy has these rules. ``owners`` is the text of its CODEOWNERS, ``beat`` has so many seconds;
    ``adapt`` changes the policies."""
    policies = policies_with(folder / "policies", *rules, people=people)
    if owners is not None:
        (policies / "CODEOWNERS").write_text(owners)
    if adapt is not None:
        adapt(policies)
    if beat is not None:
        (policies / "beats.json").write_text(json.dumps({"version": "1", "seconds": beat}))
    async with open_gatekeeper(repository, folder, policies=policies, clock=clock) as gatekeeper:
        yield inbox_of(gatekeeper, clock)


def inbox_of(gatekeeper: Gatekeeper, clock: Clock) -> Inbox:
    """What approvers may ask of ``gatekeeper``."""
    index = RunIndex()
    index.read_to_the_end()
    service = ApprovalService(gatekeeper.orchestrator, index, ApprovalIndex(), make_logger(), SecretScanner())
    return Inbox(gatekeeper, service, clock)
