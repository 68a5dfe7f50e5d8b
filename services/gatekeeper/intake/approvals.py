"""Endpoints of approvers: open requests (``gw.approvals``), and signed decisions on them (``gw.decide``).

The signature alone identifies the author of a decision. Decisions that arrive together are all judged before one is recorded.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.bus.port import SCHEMA_HEADER, Handler, Message, Reply
from gatewright.bus.topology import APPROVALS_SUBJECT, DECIDE_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import (
    ApprovalDecision,
    ApprovalList,
    ApprovalsRequest,
    DecisionBatch,
    DecisionReply,
    GrantChange,
    codec,
)
from gatewright.contracts.people.approvals import ApprovalStanding, RecordedDecision, SignedDecision
from gatewright.contracts.run_status import GateStanding
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.host_errors import host_errors
from gatewright.rules.approvals import JudgedDecision, draft_of, judge_batch, judge_decision, request_digest
from gatewright.rules.drift import base_event
from gatewright.rules.grants import check_new, judge_grant, judge_revocation
from gatewright.rules.reviewing import standing
from gatewright.rules.standing import hold_roster, with_roster
from gatewright.run.events import ApprovalDecided, RunEvent, event_of
from gatewright.run.state import AskedApproval, Run
from gatewright.secrets.documents import check_document
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import BaseObserved, DecisionsReceived, Ignored, Recorded, Refused
from gatewright.services.gatekeeper.gates.change.votes import check_votes, judged_patch
from gatewright.services.gatekeeper.gates.standing_grants import GrantRecord, StandingGrants
from gatewright.services.gatekeeper.intake.run_queries import status_of
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.telemetry.logs import Logger
from gatewright.work_documents.request_summary import request_summary

#: Seconds that an answer waits for a lookup of the targets of open requests.
LOOKING = 3.0
#: Maximum bytes of a patch that is shown with a request.
MOST_PATCH = 1 << 20


@dataclass(frozen=True)
class ApprovalService:
    """Endpoints of the identity ``approver``."""

    orchestrator: Orchestrator
    index: RunIndex
    asked: ApprovalIndex
    log: Logger
    scanner: SecretScanner

    def endpoints(self) -> dict[str, Handler]:
        """Return the handlers by subject."""
        return {APPROVALS_SUBJECT: self._endpoint(self.listed), DECIDE_SUBJECT: self._endpoint(self._take_signed)}

    async def _take_signed(self, data: bytes, schema: str = "") -> Document:
        """Apply a signed document: decisions, unless the message is about a grant."""
        return await self.change_grant(data) if schema == codec.schema_name(GrantChange) else await self.decide(data)

    def _endpoint(self, answer: Callable[[bytes, str], Awaitable[Document]]) -> Handler:
        async def ask(message: Message) -> Reply:
            try:
                with host_errors():
                    return reply(await answer(message.data, message.headers.get(SCHEMA_HEADER, "")))
            except GatewrightError as error:
                self.log.warning("approver_refused", subject=message.subject, code=error.reason, cause=error.message)
                return reply(error_document(error))

        return ask

    async def listed(self, data: bytes, schema: str = "") -> ApprovalList:  # noqa: ARG002 - one kind of question comes here
        """Return the requests or the grants, oldest first.

        Raises:
            MalformedError: the query cannot be read, or the run is unknown (``run_unknown``).
        """
        request = codec.decode(data, ApprovalsRequest)
        if request.grants:
            return self._grants(await self._require_grants.listed())
        await self.index.complete()
        runs = (request.run_id,) if request.run_id is not None else self.asked.runs(open_only=request.pending_only)
        found: list[ApprovalStanding] = []
        draft = None
        for run_id in runs:
            position = await self.orchestrator.ledger.get(run_id)
            if position.run is not None and await self._with_base(position.run) is not position.run:
                position = await self.orchestrator.ledger.get(run_id)
            if position.run is None:
                raise MalformedError(f"there is no run {run_id}", code="run_unknown")
            draft = draft_of(position.run) if request.run_id is not None else None
            for each in _wanted_requests(position.run, pending_only=request.pending_only):
                if len(found) == request.limit:
                    return ApprovalList(approvals=await self._with_targets(found), more=True, draft=draft)
                gates = status_of(position.history()).gates
                if request.details and request.run_id is not None:
                    found.append(await self._with_details(position.run, each, gates))
                else:
                    found.append(standing_of(position.run, each, gates))
        return ApprovalList(approvals=await self._with_targets(found), more=False, draft=draft)

    async def _with_targets(self, found: list[ApprovalStanding]) -> tuple[ApprovalStanding, ...]:
        """Add moved targets to open requests, as far as they are known in time."""
        waiting = {each.request.run_id for each in found if each.status == "pending"}
        runs = [run for run_id in waiting if (run := (await self.orchestrator.ledger.get(run_id)).run) is not None]
        moved = await self.orchestrator.gates.targets.moved(runs, LOOKING)
        return tuple(
            replace(each, summary=replace(each.summary, moved=moved[each.request.run_id]))
            if each.status == "pending" and each.summary is not None and each.request.run_id in moved
            else each
            for each in found
        )

    async def decide(self, data: bytes) -> DecisionReply:
        """Record decisions. All are judged before the first is recorded.

        Raises:
            MalformedError, VerificationError, DeniedError: nothing was recorded, unless another person decided about one of
                several runs in the meantime; the message names the recorded ones.
        """
        batch = codec.decode(data, DecisionBatch)
        judged = await self._judge_batch(batch)
        recorded: list[RecordedDecision] = []
        for run_id in dict.fromkeys(each.decision.run_id for each in judged):
            mine = tuple(each for each in judged if each.decision.run_id == run_id)
            try:
                recorded += await self._record(run_id, mine)
            except GatewrightError as error:
                if not recorded:
                    raise
                done = ", ".join(each.request_id for each in recorded)
                words = f"{run_id}: {error.message}; recorded before that: {done}"
                raise DeniedError(words, code=error.reason) from error
        return DecisionReply(recorded=tuple(recorded))

    async def change_grant(self, data: bytes) -> ApprovalList:
        """Apply a signed grant, or a signed revocation of one.

        Returns:
            The grant after the change.

        Raises:
            MalformedError, VerificationError, DeniedError: nothing has changed.
        """
        change = codec.decode(data, GrantChange)
        gates = self.orchestrator.gates
        roster, _ = await asyncio.to_thread(gates.policies.people.roster)
        now = self.orchestrator.clock.now()
        if change.kind == "revocation":
            revocation = await asyncio.to_thread(judge_revocation, change.signed, roster, now)
            await asyncio.to_thread(check_document, revocation, self.scanner)
            record = await self._require_grants.revoke(change.signed, revocation, now)
            self.log.info("grant_revoked", grant=revocation.grant_id, person=revocation.person)
            return self._grants((record,))
        judged = await asyncio.to_thread(judge_grant, change.signed, roster, now)
        await asyncio.to_thread(check_document, judged.grant, self.scanner)
        rules = await asyncio.to_thread(gates.policies.people.of, judged.grant.repository)
        rule = next((each for each in rules if each.name == judged.grant.rule), None)
        check_new(judged, rule, now)
        record = await self._require_grants.add(judged, now)
        words = {"grant": judged.grant.grant_id, "rule": judged.grant.rule, "until": judged.grant.not_after}
        self.log.info("grant_recorded", **words, person=judged.person.name, key=judged.fingerprint)
        return self._grants((record,))

    @property
    def _require_grants(self) -> StandingGrants:
        grants = self.orchestrator.gates.grants
        if grants is None:
            raise DeniedError("nothing can be approved in advance here", code="grant_unknown")
        return grants

    def _grants(self, records: Iterable[GrantRecord]) -> ApprovalList:
        now = self.orchestrator.clock.now()
        return ApprovalList(approvals=(), more=False, grants=tuple(record.standing(now) for record in records))

    async def _judge_batch(self, batch: DecisionBatch) -> tuple[JudgedDecision, ...]:
        roster, _ = await asyncio.to_thread(self.orchestrator.policies.people.roster)
        judged: list[JudgedDecision] = []
        for signed in batch.decisions:
            decision = codec.decode(signed.document.encode(), ApprovalDecision)
            await asyncio.to_thread(check_document, decision, self.scanner)
            run = await self._with_base(await self.orchestrator.reload(decision.run_id), LOOKING)
            now = self.orchestrator.clock.now()
            if run.parked:
                revoked = await self.orchestrator.gates.revoked_grants(run)
                run = with_roster(run, await asyncio.to_thread(hold_roster, run, roster, now, revoked))
            judged.append(await asyncio.to_thread(judge_decision, run, signed, roster, now))
            patch = await judged_patch(run, (signed,), self.orchestrator.gates.artifacts)
            await asyncio.to_thread(check_votes, run, judged[-1:], patch)
        judge_batch(judged)
        return tuple(judged)

    async def _with_base(self, run: Run, patience: float = 0.0) -> Run:
        """Return the run after votes became void because a ref of the review moved; with ``patience``, before a decision."""
        for drift in await self.orchestrator.gates.targets.drifts(run, patience):
            if base_event(run, drift, before_vote=patience > 0) is not None:
                item = BaseObserved(drift, f"{run.run_id}:base:{drift.ref}:{drift.found}", before_vote=patience > 0)
                if isinstance(await self.orchestrator.advance(run.run_id, item), Recorded):
                    run = await self.orchestrator.reload(run.run_id)
        return run

    async def _record(self, run_id: str, judged: tuple[JudgedDecision, ...]) -> list[RecordedDecision]:
        decisions = tuple(each.signed for each in judged)
        outcome = await self.orchestrator.advance(run_id, DecisionsReceived(decisions, _message_id(decisions)))
        if isinstance(outcome, Refused):
            raise DeniedError(outcome.report.summary, code=outcome.report.code)
        run = await self.orchestrator.reload(run_id)
        # Another gatekeeper may have recorded the same request already.
        recorded = await self._ledger_events(run_id) if isinstance(outcome, Ignored) else outcome.events
        counted = {event.signed for event in recorded if isinstance(event, ApprovalDecided)}
        for each in judged:
            if each.signed not in counted:
                asked = run.approvals[each.request.request_id]
                raise DeniedError(f"{each.request.request_id} is {asked.status} meanwhile", code="approval_decided")
            words = {"run_id": run_id, "request": each.request.request_id, "verdict": each.decision.verdict}
            self.log.info("approval_recorded", **words, person=each.person.name, key=each.fingerprint)
        return [
            RecordedDecision(
                request_id=each.request.request_id,
                run_id=run_id,
                verdict=each.decision.verdict,
                person=each.person.name,
                state=run.state,
            )
            for each in judged
        ]

    async def _ledger_events(self, run_id: str) -> list[RunEvent]:
        position = await self.orchestrator.ledger.get(run_id)
        return [event_of(record) for transition in position.transitions for record in transition.events]

    async def _with_details(self, run: Run, asked: AskedApproval, gates: tuple[GateStanding, ...]) -> ApprovalStanding:
        """Add every verdict, and the patch to land."""
        patch = await self.orchestrator.gates.artifacts.get_artifact(asked.request.patch) if asked.request.patch else b""
        shown = patch[:MOST_PATCH].decode("utf-8", "replace")
        return replace(standing_of(run, asked, gates), gates=gates, patch=shown, patch_bytes=len(patch))


def standing_of(run: Run, asked: AskedApproval, gates: tuple[GateStanding, ...]) -> ApprovalStanding:
    """Return a request with its status: an open request of an ended run is withdrawn. ``gates``: all verdicts on the run."""
    withdrawn = run.ended and asked.status == "pending"
    return ApprovalStanding(
        request=asked.request,
        request_sha256=request_digest(asked.request),
        status="withdrawn" if withdrawn else asked.status,
        decided_by=asked.person,
        decided_at=asked.at,
        approved_by=asked.approved_by,
        comments=asked.comments,
        review=standing(run, asked),
        delegations=asked.delegations,
        summary=request_summary(run, asked, gates),
    )


def _wanted_requests(run: Run, *, pending_only: bool) -> list[AskedApproval]:
    return [asked for asked in run.approvals.values() if not pending_only or (asked.status == "pending" and not run.ended)]


def _message_id(decisions: tuple[SignedDecision, ...]) -> str:
    whole = "".join(each.document + each.signature for each in decisions)
    return "decided:" + hashlib.sha256(whole.encode()).hexdigest()
