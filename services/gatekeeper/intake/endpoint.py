"""Submissions become runs: the endpoint ``gw.submit``, and the messages of publishers in the stream INTAKE.

Decides nothing about a run. Applies the publishers' rules: who may submit, how much and how often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import ABORT_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import SubmitReply
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import DeniedError, GatewrightError, LimitError, UnavailableError
from gatewright.host_errors import host_errors
from gatewright.secrets.documents import check_document, redact_document
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.budget_accounts import may_ask_models, with_default
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Submitted
from gatewright.services.gatekeeper.intake import publishers
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.submission import abort_request, message_id, submission
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

# Parses messages off the event loop: a large message may take seconds, and must not block other work.

#: Maximum bytes of a message that is parsed on the event loop.
AT_ONCE = 32_768

R = TypeVar("R")


async def read(message: Message, reader: Callable[[], R]) -> R:
    """Return the result of ``reader`` on ``message``; a large message is parsed in a thread."""
    return reader() if len(message.data) <= AT_ONCE else await asyncio.to_thread(reader)


@dataclass(frozen=True)
class SubmissionService:
    """Forwards submissions and aborts of publishers to the orchestrator."""

    orchestrator: Orchestrator
    limits: PublisherLimits
    log: Logger
    metrics: Metrics
    scanner: SecretScanner = field(default_factory=SecretScanner)
    #: Submissions in progress, by run, publisher and digest of the document.
    accepting: dict[tuple[str, str, str], asyncio.Task[bool]] = field(default_factory=dict)

    async def submit(self, message: Message) -> Reply:
        """Handle a request to ``gw.submit``.

        Returns:
            The run id once the run is in the ledger, or an error that names each fault.
        """
        try:
            with host_errors():
                item, new = await self._accept(message)
        except GatewrightError as error:
            self.log.warning("submission_refused", subject=message.subject, code=error.reason, cause=error.message)
            self.metrics.submission("refused", error.reason)
            return reply(error_document(error))
        self.metrics.submission("accepted" if new else "existing")
        if new:
            self._later(item)
        return reply(SubmitReply(run_id=item.run_id, existing=not new))

    async def _accept(self, message: Message) -> tuple[Submitted, bool]:
        """Accept a submission.

        Return it, and whether it is new. A repetition during acceptance shares the first one's answer.
        """
        subject, rule = self._publisher(message)
        self.limits.take(rule, "submissions")
        item = await read(message, lambda: submission(message, subject, rule.name))
        key = (item.run_id, item.publisher, item.document_sha256)
        asked = self.accepting.get(key)
        if asked is not None:
            await asyncio.shield(asked)
            return item, False
        self.log.info(
            "submission_received", run_id=item.run_id, trace_id=item.trace_id, publisher=rule.name, bytes=message.size
        )
        accepting = self.accepting[key] = asyncio.ensure_future(self._accept_new(item, rule))
        try:
            return item, await accepting
        finally:
            del self.accepting[key]

    async def _accept_new(self, item: Submitted, rule: Publisher) -> bool:
        await self._check_submission(item, rule)
        async with self.limits.place(rule, item.run_id, lambda: self._exists(item.run_id), _repository_url(item)):
            new = await self.orchestrator.accept(await self._reserve(item))
            await self._check_same(item)
        return new

    async def take_stored(self, message: Message, *, first: bool) -> None:
        """Handle a message of INTAKE: a submission or an abort.

        Args:
            message: the message.
            first: whether this is its first delivery.

        Raises:
            LimitError: the publisher's limits do not allow it now.
            DeniedError: the publisher may not do this.
            MalformedError: the message cannot be read.
            BusError: the bus does not answer.
        """
        subject, rule = self._publisher(message)
        if first:
            self.limits.take(rule, "submissions")
        if subject == ABORT_SUBJECT:
            await self._abort(message, rule)
            return
        item = await read(message, lambda: submission(message, subject, rule.name, durable_key=message_id(message)))
        await self._check_submission(item, rule)
        if not await self._exists(item.run_id):
            if not first:
                self.limits.take(rule, "submissions")
            async with self.limits.place(rule, item.run_id, lambda: self._exists(item.run_id), _repository_url(item)):
                await self.orchestrator.accept(await self._reserve(item))
        self.limits.let_go(rule, message.sequence)
        await self._check_same(item)
        await self.orchestrator.advance(item.run_id, item)

    async def _reserve(self, item: Submitted) -> Submitted:
        """Reserve the budget of a new run in the organisation's budgets, and return it with that budget.

        A failed acceptance leaves the reservation: a retry uses it, else it is returned after an hour.
        """
        policies, url = self.orchestrator.policies, _repository_url(item)
        accounts = self.orchestrator.accounts
        if accounts is None or not may_ask_models(item.document, routed=bool(policies.models.routes)):
            return item
        entries = await asyncio.to_thread(accounts.covering, item.publisher, url)
        if not entries or await self._exists(item.run_id):
            return item
        document = with_default(item.document, accounts.policy)
        await accounts.reserve(item.run_id, entries, document.budget or Budget())
        return replace(item, document=document)

    def wait_for_limits(self, message: Message, error: LimitError) -> float | None:
        """Return how many seconds a stored message must wait for its publisher's limits.

        Returns:
            None when so many messages wait already that the queue would have no space for other publishers.
        """
        _, rule = self._publisher(message)
        wait = self.limits.hold(rule, message.sequence, message.size, error)
        self.log.warning("input_held_back", publisher=rule.name, code=error.reason, seconds=wait)
        return wait

    async def _abort(self, message: Message, rule: Publisher) -> None:
        self.limits.let_go(rule, message.sequence)
        request, _ = await asyncio.to_thread(redact_document, abort_request(message), self.scanner)
        run = await self.orchestrator.current(request.run_id)
        if run is not None and not publishers.may_abort(run, rule):
            raise DeniedError(f"{rule.name} may not end a run of {run.publisher}", code="abort_not_allowed")
        await self.orchestrator.advance(request.run_id, AbortReceived(request, message_id(message), rule.name))

    def _publisher(self, message: Message) -> tuple[str, Publisher]:
        return publishers.sender(message, self.orchestrator.policies.publishers)

    async def _check_submission(self, item: Submitted, rule: Publisher) -> None:
        publishers.check_document(item.document, item.run_id, rule)
        await asyncio.to_thread(check_document, item.document, self.scanner)

    async def _check_same(self, item: Submitted) -> None:
        """Check that the run, recorded by this replica or another, was made from this document."""
        run = await self.orchestrator.current(item.run_id)
        if run is not None:
            publishers.check_same(run, item.publisher, item.document_sha256)
            self.limits.runs.note(run)

    async def _exists(self, run_id: str) -> bool:
        return await self.orchestrator.current(run_id) is not None

    def _later(self, item: Submitted) -> None:
        """Take the run's own next steps after the reply to the publisher. ``resume`` repeats them after a crash."""
        task = asyncio.get_running_loop().create_task(self._carry_on(item))
        self.orchestrator.background.add(task)
        task.add_done_callback(self.orchestrator.background.discard)

    async def _carry_on(self, item: Submitted) -> None:
        try:
            with host_errors():
                await self.orchestrator.advance(item.run_id, item)
        except UnavailableError as error:
            self.log.warning("run_left_for_later", run_id=item.run_id, code=error.reason, cause=error.message)


def _repository_url(item: Submitted) -> str:
    """Return the URL that a document names; empty for none."""
    return item.document.repository.url if item.document.repository is not None else ""
