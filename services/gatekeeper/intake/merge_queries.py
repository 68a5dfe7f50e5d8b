"""``gw.merge``: publishers list merge queues. ``gw.merge-act``: operators hold, resume and change them.

A publisher sees a queue that has one of its runs. It sees the runs of others only as a count, as far as its rule does not allow
more. The permissions of the bus restrict actions to operators. Where the policy of a queue names signers, one of them must
sign the action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from gatewright.bus.port import Handler, Message, Reply
from gatewright.bus.topology import MERGE_ACT_SUBJECT, MERGE_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import MergeAction, MergeActionReply, MergeQueues, MergeQueuesRequest, codec
from gatewright.contracts.merge_queue import MergeQueueView
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.host_errors import host_errors
from gatewright.queue import events as e
from gatewright.queue.inputs import Input, Observed
from gatewright.queue.state import Queue
from gatewright.rules.merge_actions import ActionSigner, claimed_signer, judge_action
from gatewright.secrets.documents import check_document
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.intake import publishers
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.telemetry.logs import Logger
from gatewright.view.merge_queue import limited_view, queue_view


class MergeQueuesPort(Protocol):
    """The queues of this gatekeeper."""

    async def known(self) -> Mapping[str, Queue]:
        """Return the current state of each queue by its id."""
        ...

    def policy_of(self, queue: Queue) -> QueuePolicy:
        """Return the policy in force for a queue."""
        ...

    async def apply(self, queue_id: str, item: Input) -> bool:
        """Decide about an input and append the events; False when the queue ignores it."""
        ...


@dataclass(frozen=True)
class MergeQueueService:
    """The endpoints. A list consumes a question of its publisher's ``limits``."""

    queues: MergeQueuesPort
    orchestrator: Orchestrator
    limits: PublisherLimits
    index: RunIndex
    log: Logger
    scanner: SecretScanner

    def questions(self) -> dict[str, Handler]:
        """Return the handlers of publishers' requests by plain subject."""
        return {MERGE_SUBJECT: self._endpoint(self._list_message)}

    def actions(self) -> dict[str, Handler]:
        """Return the handlers of operators' requests by subject."""
        return {MERGE_ACT_SUBJECT: self._endpoint(self._act_message)}

    def _endpoint(self, answer: Callable[[Message], Awaitable[Document]]) -> Handler:
        async def ask(message: Message) -> Reply:
            try:
                with host_errors():
                    return reply(await answer(message))
            except GatewrightError as error:
                self.log.info("merge_queue_refused", subject=message.subject, code=error.reason, cause=error.message)
                return reply(error_document(error))

        return ask

    async def _list_message(self, message: Message) -> MergeQueues:
        _, rule = publishers.sender(message, self.orchestrator.policies.publishers)
        self.limits.take(rule, "questions")
        return await self.list_queues(codec.decode(message.data, MergeQueuesRequest), rule)

    async def _act_message(self, message: Message) -> MergeActionReply:
        return await self.act(codec.decode(message.data, MergeAction))

    async def list_queues(self, request: MergeQueuesRequest, rule: Publisher) -> MergeQueues:
        """Return the queues that fit the request and that the publisher may see.

        Raises:
            UnavailableError: this gatekeeper is still reading the ledger (``ledger_being_read``).
        """
        await self.index.complete()
        found: list[MergeQueueView] = []
        for queue_id, queue in sorted((await self.queues.known()).items(), key=_branch_of):
            if _fits(queue_id, queue, request):
                view = await self._view(queue_id, queue)
                limited = limited_view(view, self._visible(view, rule)) if rule.may_see != "any" else view
                if rule.may_see == "any" or limited.entries or limited.endings:
                    found.append(limited)
        return MergeQueues(queues=tuple(found))

    async def act(self, action: MergeAction) -> MergeActionReply:
        """Apply an operator's action, and return the queue after it.

        1. The action contains no secret, because it is stored permanently.
        2. Exactly one queue fits it.
        3. A person signed it whom the policy of the queue names, if it names any.
        4. The queue permits it now.

        Raises:
            MalformedError: ``merge_queue_unknown``, ``merge_entry_unknown``, ``secret_found``.
            ConfigurationError: the roster cannot be read (``approvers_unusable``).
            VerificationError, DeniedError: the action is not signed, or not as ``judge_action`` requires.
            DeniedError: ``merge_not_possible``, the state of the queue forbids it.
        """
        await asyncio.to_thread(check_document, replace(action, signed=None), self.scanner)  # 1
        queue_id, queue = _chosen(action, await self.queues.known())  # 2
        signer = await self._signer(action, queue_id, queue)  # 3
        item = _input(action, queue, signer.name)
        if why := item.may_follow(queue):  # 4
            raise DeniedError(f"cannot {action.action}: {why}", code="merge_not_possible")
        if not await self.queues.apply(queue_id, item):
            raise DeniedError(f"cannot {action.action}: the queue has just changed", code="merge_not_possible")
        facts = {"run_id": action.run_id, "by": signer.name, "key": signer.fingerprint, "reason": action.reason}
        self.log.info("merge_queue_changed", queue_id=queue_id, action=action.action, **facts)
        after = (await self.queues.known()).get(queue_id, queue)
        return MergeActionReply(queue=await self._view(queue_id, after))

    async def _signer(self, action: MergeAction, queue_id: str, queue: Queue) -> ActionSigner:
        signers = self.queues.policy_of(queue).action_signers
        if action.signed is None:
            return claimed_signer(action, signers)
        roster, _ = await asyncio.to_thread(self.orchestrator.policies.people.roster)
        now = self.orchestrator.clock.now()
        return await asyncio.to_thread(judge_action, action, action.signed, queue_id, queue, signers, roster, now)

    async def _view(self, queue_id: str, queue: Queue) -> MergeQueueView:
        positions = [await self.orchestrator.ledger.get(run_id) for run_id in queue.entries]
        titles = {each.run.run_id: each.run.accepted.user_request for each in positions if each.run is not None}
        signed_actions = bool(self.queues.policy_of(queue).action_signers)
        return queue_view(queue_id, queue, titles, signed_actions=signed_actions)

    def _visible(self, view: MergeQueueView, rule: Publisher) -> frozenset[str]:
        queued = (each.run_id for each in view.entries if each.publisher == rule.name)
        ended = ((each.run_id, self.index.known(each.run_id)) for each in view.endings)
        return frozenset((*queued, *(run_id for run_id, run in ended if run is not None and run.publisher == rule.name)))


def _branch_of(item: tuple[str, Queue]) -> tuple[str, str]:
    return item[1].repository, item[1].branch


def _fits(queue_id: str, queue: Queue, named: MergeQueuesRequest | MergeAction) -> bool:
    branches = {"", queue.branch, queue.branch.removeprefix("refs/heads/")}
    return named.queue_id in {None, queue_id} and named.repository in {"", queue.repository} and named.branch in branches


def _chosen(action: MergeAction, known: Mapping[str, Queue]) -> tuple[str, Queue]:
    """Return the queue of an action; the run identifies it if nothing else does."""
    fitting = [(queue_id, queue) for queue_id, queue in sorted(known.items(), key=_branch_of) if _fits(queue_id, queue, action)]
    if not fitting:
        raise MalformedError("there is no such merge queue", code="merge_queue_unknown")
    if action.action in {"dequeue", "move"}:
        holding = [(queue_id, queue) for queue_id, queue in fitting if action.run_id in queue.entries]
        if not holding:
            words = f"{action.run_id} is in no such queue" if action.run_id else f"{action.action} requires a run"
            raise MalformedError(words, code="merge_entry_unknown")
        fitting = holding
    if len(fitting) > 1:
        names = ", ".join(queue_id for queue_id, _ in fitting[:5])
        raise MalformedError(f"{len(fitting)} merge queues fit: name one of {names}", code="merge_queue_unknown")
    return fitting[0]


def _input(action: MergeAction, queue: Queue, by: str) -> Observed:
    run_id, detail, signed = action.run_id or "", action.reason, action.signed
    match action.action:
        case "hold":
            return e.QueueHeld(reason="by_person", detail=detail, by=by, signed=signed)
        case "resume":
            return e.QueueResumed(by=by, detail=detail, signed=signed)
        case "dequeue":
            return e.EntryLeft(run_id=run_id, code="aborted", by=by, detail=detail, signed=signed)
        case "move":
            if action.ahead_of and action.ahead_of not in queue.entries:
                raise MalformedError(f"{action.ahead_of} is not in this queue", code="merge_entry_unknown")
            return e.EntryMoved(run_id=run_id, ahead_of=action.ahead_of, by=by, detail=detail, signed=signed)
