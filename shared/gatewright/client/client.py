"""The asynchronous client: submit work, follow runs, fetch artifacts. It uses the bus port and decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec

from gatewright.artifacts import inline_uri
from gatewright.bus.identities import DEFAULT_PUBLISHER, BusAddress
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import KEY_HEADER, NO_ANSWER, NO_RESPONDERS, Bus, Message
from gatewright.bus.topology import MERGE_ACT_SUBJECT, answer_subject, question_subject
from gatewright.client.bundles import receive_bundle
from gatewright.client.histories import EventHistory, LedgerHistory, ServedHistory
from gatewright.client.refusals import UNANSWERED, decode_answer
from gatewright.clock import Clock, SystemClock, new_id
from gatewright.contracts import (
    AbortRequest,
    AgentAnswer,
    AgentQuestion,
    BudgetsRequest,
    BudgetStates,
    BundlePart,
    CanonicalMemory,
    ContextRequest,
    EnvironmentOrder,
    EnvironmentResult,
    FlakyTests,
    FlakyTestsRequest,
    MemoryRequest,
    MergeAction,
    MergeActionReply,
    MergeQueues,
    MergeQueuesRequest,
    OrchestratorEvent,
    RoleBindingReadModel,
    RunContext,
    RunList,
    RunRequest,
    RunsRequest,
    RunStatus,
    StatusRequest,
    SubmitReply,
    SummonsList,
    SummonsRequest,
    TaskContract,
    WorkflowCaseReadModel,
    codec,
)
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.people.summons import SummonsItem
from gatewright.contracts.vocabulary import Artifact, Document, RunId
from gatewright.errors import BusError, LimitError, MalformedError, UnavailableError
from gatewright.ledger.role_bindings import role_binding_read_model, workflow_case
from gatewright.ledger.store import Ledger
from gatewright.reasons import passes
from gatewright.run.events import ABOUT_BUNDLES
from gatewright.run.evolve import evolve
from gatewright.run.state import Run

if TYPE_CHECKING:
    from gatewright.client.reverts import RevertChoices
    from gatewright.git.access.credentials import RepositoryAccess

DEFAULT_URL = "nats://127.0.0.1:4222"
#: Artifacts up to this many bytes travel inside the document, larger ones through the object store.
INLINE_LIMIT = 256 * 1024
#: Seconds that a submission may take in all: the gatekeeper fetches the baseline before it answers.
SUBMIT_TIMEOUT = 60.0
#: Seconds until a request is repeated under the same key: it is lost with a gatekeeper that ended.
ASK_AGAIN = 10.0
STATUS_TIMEOUT = 10.0
#: Seconds until an order of environments is repeated; the puller answers earlier, also while it prepares them.
ORDER_TIMEOUT = 15.0
#: Seconds after which there is no puller: where none takes the first order, and where one that took an order may restart.
ORDER_PATIENCE = 3.0
RESTART_PATIENCE = 120.0
#: Reasons of a service that is there, and has no time for it now.
BUSY = frozenset({"service_busy", "service_stopping"})
#: Seconds between two attempts to reach a gatekeeper that is still starting.
RETRY_PAUSE = 0.02
#: The same where the gatekeeper has answered that it cannot take the submission now.
PASSING_PAUSE = 1.0
#: Seconds between two questions after a run's end: at first, and at most.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0


D = TypeVar("D", bound=Document)


class Client:
    """A publisher's view of Gatewright.

    ``async with Client.connect(url) as client`` is the usual way; ``Client(bus)`` takes any bus that is connected already.
    Every method raises BusError when the bus cannot serve.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        requested_by: str = "sdk",
        publisher: str = DEFAULT_PUBLISHER,
        reads_ledger: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Create a client. ``publisher``: whose subjects are used; the server restricts a connection to its own identity's.

        ``reads_ledger``: whether the server lets it read the ledger; otherwise the gatekeeper answers.
        """
        self._bus = bus
        #: Whether it may read the ledger, and not only its own runs.
        self.reads_ledger = reads_ledger
        self._requested_by = requested_by
        self._publisher = publisher
        self._subjects = publisher_subjects(publisher)
        self._history: EventHistory = LedgerHistory(bus) if reads_ledger else ServedHistory(bus, self._subjects)
        self._clock = clock or SystemClock()

    @classmethod
    def connect(
        cls,
        address: str | BusAddress = DEFAULT_URL,
        *,
        seed: Path | None = None,
        requested_by: str = "sdk",
        patience: float = 10.0,
    ) -> Connecting:
        """Connect to a NATS server: await it for a client, or use it as an asynchronous context.

        ``seed``: the ``.nk`` file of a publisher, where ``address`` is a URL. ``patience``: seconds that this call, and later
        every single one, waits for a server that is away.
        """
        address = BusAddress(address, seed) if isinstance(address, str) else address
        return Connecting(address, requested_by, patience)

    @property
    def bus(self) -> Bus:
        """The bus that it speaks to, for what reads the ledger itself; closed with the client."""
        return self._bus

    async def close(self) -> None:
        await self._bus.close()

    async def submit_request(self, request: RunRequest | Mapping[str, Any], *, patience: float = 0.0) -> str:
        """Submit a request to be compiled and run; return the run id, which is then in the ledger.

        A request without an idempotency key gets one, so that an attempt without an answer can be repeated. For
        ``patience`` seconds it is repeated while no gatekeeper answers, the disk is full, or a limit of the publisher is
        reached. Raises MalformedError (with every fault), DeniedError, LimitError.
        """
        document = _document(request, RunRequest)
        if document.idempotency_key is None:
            document = msgspec.structs.replace(document, idempotency_key=new_id())
        return await self._submit(codec.encode(document), "run_request.v1", patience, {})

    async def submit_contract(
        self, contract: TaskContract | Mapping[str, Any], *, idempotency_key: str | None = None, patience: float = 0.0
    ) -> str:
        """Run a task contract unchanged; return the run id. Raises as ``submit_request`` does.

        ``idempotency_key``: 8 to 128 printable ASCII characters; default: a new one.
        """
        document = _document(contract, TaskContract)
        headers = {KEY_HEADER: idempotency_key or new_id()}
        return await self._submit(codec.encode(document), "task_contract.v1", patience, headers)

    async def revert(self, run_id: str, choices: RevertChoices | None = None, *, access: RepositoryAccess | None = None) -> str:
        """Order a run that reverts what ``run_id`` landed; return its run id.

        This process reads the repository, a remote one with ``access``. ``choices``: what differs from the reverted run. Raises
        as ``prepare_revert`` and ``submit_request`` do.
        """
        # Imported late: most clients need no git.
        from gatewright.client.reverts import RevertChoices, prepare_revert
        from gatewright.git.access.credentials import NO_ACCESS

        choices = choices or RevertChoices(requested_by=self._requested_by)
        request, attachments = await prepare_revert(await self.get(run_id), choices, access or NO_ACCESS)
        attached = [await self.attach(name, data) for name, data in attachments]
        return await self.submit_request(msgspec.structs.replace(request, artifacts=(*request.artifacts, *attached)))

    async def status(self, run_id: str) -> RunStatus:
        """Return the state of a run from the gatekeeper; publishers can read only their own runs.

        Raises MalformedError (code ``run_unknown``), LimitError.
        """
        request = codec.encode(StatusRequest(run_id=_check_run_id(run_id)))
        answer = await self._ask("status", request, "status_request.v1")
        return decode_answer(answer, RunStatus)

    async def context(
        self, run_id: str, selectors: Sequence[str] = ("summary", "decisions"), *, scope: str = "brief"
    ) -> RunContext:
        """Return a summary of a run, written for models: each section is a block of data, and contains no instructions.

        ``selectors``: of ``summary``, ``decisions``, ``review`` and ``diff``; ``scope``: ``brief`` (4,000 characters of a
        section) or ``full`` (64,000). Raises MalformedError (``run_unknown``, ``run_expired``), LimitError.
        """
        wanted = {"run_id": _check_run_id(run_id), "selectors": list(selectors), "scope": scope}
        request = codec.encode(_document(wanted, ContextRequest))
        answer = await self._ask("context", request, "context_request.v1")
        return decode_answer(answer, RunContext)

    async def memory(self, repository: str) -> CanonicalMemory:
        """Return references to the results of this publisher's sealed runs on a repository, as its next run there receives
        them.

        Raises MalformedError (``memory_unknown``, ``bad_url``), LimitError, UnavailableError.
        """
        request = codec.encode(_document({"repository": repository}, MemoryRequest))
        answer = await self._ask("context", request, "memory_request.v1")
        return decode_answer(answer, CanonicalMemory)

    async def flaky_tests(self, repository: str = "", *, since_seconds: int = 30 * 86_400) -> FlakyTests:
        """Return the flaky tests in the runs that this publisher may see, by default of all repositories.

        Raises MalformedError (``bad_url``), LimitError, UnavailableError.
        """
        wanted = {"repository": repository, "since_sec": since_seconds}
        request = codec.encode(_document(wanted, FlakyTestsRequest))
        answer = await self._ask("context", request, "flaky_tests_request.v1")
        return decode_answer(answer, FlakyTests)

    async def budgets(self) -> BudgetStates:
        """Return the organisation's budgets that cover this publisher's runs. Raises LimitError, UnavailableError."""
        return decode_answer(await self._ask("context", codec.encode(BudgetsRequest()), "budgets_request.v1"), BudgetStates)

    async def hear_questions(self, hear: Callable[[AgentQuestion], Awaitable[None]]) -> None:
        """Call ``hear`` with each permission request of an agent in this publisher's interactive runs. Raises BusError."""

        async def receive(message: Message) -> None:
            await hear(codec.decode(message.data, AgentQuestion))

        await self._bus.listen(question_subject(self._publisher), receive)

    async def answer_question(self, question: AgentQuestion, *, allow: bool) -> None:
        """Allow the request once, or refuse it. Raises BusError."""
        answer = AgentAnswer(
            question_id=question.question_id,
            run_id=question.run_id,
            task_id=question.task_id,
            allow=allow,
            answered_by=self._requested_by[:200],
        )
        await self._bus.broadcast(answer_subject(self._publisher), codec.encode(answer))

    async def ended(self, run_id: str, *, timeout: float | None = None) -> RunStatus:  # noqa: ASYNC109 - part of the offer
        """Return the status of a run once it has ended and its bundle is sealed, polling less often as time passes.

        For callers that need only the end. Raises UnavailableError (code ``run_not_ended``) after ``timeout`` seconds.
        """
        pause = FIRST_PAUSE
        try:
            async with asyncio.timeout(timeout):
                while True:
                    wait = pause = min(LONGEST_PAUSE, pause * 1.5)
                    try:
                        status = await self.status(run_id)
                        if status.bundle is not None:
                            return status
                    except LimitError as error:
                        wait = error.retry_after or pause
                    except UnavailableError as error:
                        if error.reason not in UNANSWERED:
                            raise
                    await asyncio.sleep(wait)
        except TimeoutError:
            raise UnavailableError(f"{run_id} has not ended within {timeout} s", code="run_not_ended") from None

    async def follow(self, run_id: str) -> AsyncGenerator[OrchestratorEvent, None]:
        """The events of a run from its first one on, live, up to and with ``bundle_sealed``; of an expired one ``run_expired``.

        A run that does not exist yet is waited for. The hash chain is checked: raises VerificationError when the events
        are not a chain, MalformedError when entries are missing or damaged. Messages that are no entries are passed over.
        """
        async with contextlib.aclosing(self._history.events(_check_run_id(run_id), follow=True)) as events:
            async for event in events:
                yield event
                if event.event_type in ABOUT_BUNDLES:
                    return

    async def wait(self, run_id: str, *, timeout: float | None = None) -> Run:  # noqa: ASYNC109 - part of the offer
        """The run once it has ended and its bundle is sealed.

        Raises UnavailableError (code ``run_not_ended``) when that takes more than ``timeout`` seconds.
        """
        run: Run | None = None
        try:
            async with asyncio.timeout(timeout), contextlib.aclosing(self.follow(run_id)) as events:
                async for event in events:
                    run = evolve(run, event)
        except TimeoutError:
            raise UnavailableError(f"{run_id} has not ended within {timeout} s", code="run_not_ended") from None
        assert run is not None  # noqa: S101 - follow ends only after an event
        return run

    async def get(self, run_id: str) -> Run:
        """Return the current state of the run. Raises MalformedError (code ``run_unknown``), as ``events`` does."""
        run: Run | None = None
        async for event in self._history.events(_check_run_id(run_id), follow=False):
            run = evolve(run, event)
        if run is None:
            raise MalformedError(f"there is no run {run_id}", code="run_unknown")
        return run

    async def role_binding(self, run_id: str) -> RoleBindingReadModel:
        """Whom the tasks of a run were given to, for looking at; its contracts alone count. Raises as ``get`` does."""
        return role_binding_read_model(await self.get(run_id))

    async def workflow_case(self, run_id: str, *, limit: int = 50) -> WorkflowCaseReadModel:
        """A run with those of the newest ``limit`` runs that serve the same requirements, for looking at.

        Raises as ``get`` and ``list_runs`` do.
        """
        run = await self.get(run_id)
        listed = await self.list_runs(limit=limit)
        return workflow_case(run, [await self.get(each.run_id) for each in listed.runs])

    async def events(self, run_id: str) -> tuple[OrchestratorEvent, ...]:
        """The events of a run so far, their chain checked; none for a run that does not exist."""
        return tuple([event async for event in self._history.events(_check_run_id(run_id), follow=False)])

    async def runs(self) -> tuple[Run, ...]:
        """Return every readable run in the ledger, oldest first; needs the right to read it. Publishers use ``list_runs``."""
        listed = Ledger(self._bus).everything(lambda _run_id, _error: None)
        found = [position.run async for position in listed if position.run is not None]
        return tuple(sorted(found, key=lambda run: (run.created_at, run.run_id)))

    async def list_runs(
        self, *, limit: int = 50, before: str | None = None, prefix: str | None = None, open_only: bool = False
    ) -> RunList:
        """A page of the runs that this publisher may see, the newest first.

        ``before``: the last run of the page before. ``prefix``: how their run ids begin. Raises LimitError.
        """
        wanted = {"limit": limit, "before": before, "prefix": prefix, "open_only": open_only}
        request = codec.encode(_document(wanted, RunsRequest))
        answer = await self._ask("runs", request, "runs_request.v1")
        return decode_answer(answer, RunList)

    async def abort(self, run_id: str, reason: str) -> None:
        """Request the end of a run. The run's events show when it ends. For an ended run this has no effect."""
        request = AbortRequest(run_id=_check_run_id(run_id), reason=reason, requested_by=self._requested_by)
        await self._bus.publish(
            self._subjects["abort"], codec.encode(request), schema="abort_request.v1", message_id=f"{run_id}:abort:{new_id()}"
        )

    async def summon(self, run_id: str, items: Sequence[SummonsItem], *, key: str | None = None) -> SummonsList:
        """Put questions to roles about an open run, all of ``items`` or none: evidence outside the run, which no gate reads.

        ``key``: 8 to 64 letters, digits, ``_`` and ``-``; the same questions under the same key are put once. Raises
        MalformedError (``run_unknown``), DeniedError (``too_many_summonses``, ...), LimitError.
        """
        return await self._send_summons(_check_run_id(run_id), tuple(items), key or new_id())

    async def summonses(self, run_id: str) -> SummonsList:
        """Return the questions to roles about a run, with their answers. Raises MalformedError (``run_unknown``),
        LimitError."""
        return await self._send_summons(_check_run_id(run_id), (), None)

    async def summons_answered(self, asked: SummonsList, *, timeout: float | None = None) -> SummonsList:  # noqa: ASYNC109 - part of the offer
        """Return the questions once all of ``asked`` are answered, or the run has ended.

        Raises UnavailableError (code ``summons_unanswered``) after ``timeout`` seconds.
        """
        pause = FIRST_PAUSE
        try:
            async with asyncio.timeout(timeout):
                while True:
                    wait = pause = min(LONGEST_PAUSE, pause * 1.5)
                    try:
                        listed = msgspec.structs.replace(await self.summonses(asked.run_id), asked=asked.asked)
                        open_ones = {each.task.task_id for each in listed.summonses if each.answer is None}
                        if not open_ones & set(asked.asked) or (await self.status(asked.run_id)).status != "RUNNING":
                            return listed
                    except LimitError as error:
                        wait = error.retry_after or pause
                    await asyncio.sleep(wait)
        except TimeoutError:
            words = f"not all roles have answered within {timeout} s; `gatewright summon RUN` shows what comes later"
            raise UnavailableError(words, code="summons_unanswered") from None

    async def _send_summons(self, run_id: str, items: tuple[SummonsItem, ...], key: str | None) -> SummonsList:
        request = SummonsRequest(run_id=run_id, questions=items, key=key, requested_by=self._requested_by[:200])
        data, subject = codec.encode(request), self._subjects["summon"]
        answer = await self._bus.request(subject, data, schema="summons_request.v1", timeout=STATUS_TIMEOUT)
        return decode_answer(answer, SummonsList)

    async def _ask(self, endpoint: str, question: bytes, schema: str) -> Message:
        """Return the answer to a question. It is asked twice: a connection that breaks loses a question or its answer."""
        subject = self._subjects[endpoint]
        try:
            return await self._bus.request(subject, question, schema=schema, timeout=STATUS_TIMEOUT / 2)
        except BusError as error:
            if error.reason != NO_ANSWER:
                raise
        return await self._bus.request(subject, question, schema=schema, timeout=STATUS_TIMEOUT / 2)

    async def merge_queues(
        self, *, repository: str = "", branch: str = "", queue_id: str | None = None
    ) -> tuple[MergeQueueView, ...]:
        """Return the merge queues that this publisher may see, by repository and branch.

        Each argument limits the list. Raises MalformedError, LimitError, UnavailableError.
        """
        wanted = {"repository": repository, "branch": branch, "queue_id": queue_id}
        answer = await self._ask("merge", codec.encode(_document(wanted, MergeQueuesRequest)), "merge_queues_request.v1")
        return decode_answer(answer, MergeQueues).queues

    async def merge_act(
        self,
        action: MergeActionKind,
        *,
        repository: str = "",
        branch: str = "",
        queue_id: str | None = None,
        run_id: str | None = None,
        ahead_of: str = "",
        reason: str = "",
        requested_by: str = "",
        signed: SignedDecision | None = None,
    ) -> MergeQueueView:
        """Hold or resume a merge queue, take a run out of it, or move a run within it; return the queue. Operators only.

        Args:
            action: ``hold``, ``resume``, ``dequeue`` or ``move``.
            repository: with ``branch`` or ``queue_id``, the queue; not required where only one queue fits the action.
            branch: see ``repository``.
            queue_id: see ``repository``.
            run_id: the run to take out or to move.
            ahead_of: the run that it is moved before; empty for the end.
            reason: for people.
            requested_by: who acts, for the record; default: the name of this client.
            signed: the same action as a signed ``merge_instruction.v1``, where ``signed_actions`` of the queue's view is true.

        Raises:
            MalformedError: ``merge_queue_unknown``, ``merge_entry_unknown``.
            DeniedError: ``merge_not_possible``, the state of the queue forbids it; ``merge_action_unsigned``, the policy
                requires a signature; other codes refuse the signature.
        """
        wanted = {
            "action": action,
            "requested_by": requested_by or self._requested_by,
            "repository": repository,
            "branch": branch,
            "queue_id": queue_id,
            "run_id": run_id,
            "ahead_of": ahead_of,
            "reason": reason,
            "signed": signed,
        }
        data = codec.encode(_document(wanted, MergeAction))
        answer = await self._bus.request(MERGE_ACT_SUBJECT, data, schema="merge_action.v1", timeout=STATUS_TIMEOUT)
        return decode_answer(answer, MergeActionReply).queue

    async def order_environments(self, order: EnvironmentOrder, note: Callable[[str], None]) -> EnvironmentResult:
        """Have the puller prepare environments; ``note`` receives its progress. Returns the result once they exist.

        Raises MalformedError, UnavailableError: no puller answers (``puller_missing``), or its refusal.
        """
        data, noted, begun = codec.encode(order), 0, self._clock.monotonic()
        digest, give_up = hashlib.sha256(data).hexdigest(), begun + ORDER_PATIENCE
        while True:
            pause = PASSING_PAUSE
            try:
                answer = await self._bus.request(
                    self._subjects["environment"], data, schema="environment_order.v1", timeout=ORDER_TIMEOUT
                )
                result = decode_answer(answer, EnvironmentResult)
            except LimitError as error:
                pause = error.retry_after or PASSING_PAUSE
            except UnavailableError as error:
                if error.reason not in {NO_ANSWER, NO_RESPONDERS, *BUSY}:
                    raise
                if error.reason == NO_ANSWER:
                    note("waiting for an answer of the puller")
                    give_up = max(give_up, begun + RESTART_PATIENCE)
                if error.reason not in BUSY and self._clock.monotonic() >= give_up:
                    words = "no puller answers on this bus, which would prepare environments for --env auto"
                    raise UnavailableError(words, code="puller_missing") from error
            else:
                if result.order_sha256 != digest:
                    raise UnavailableError("the puller answered another order than this one", code="environment_not_prepared")
                for words in result.notes[noted:]:
                    note(words)
                if result.state == "READY":
                    return result
                noted, give_up, pause = max(noted, len(result.notes)), self._clock.monotonic() + RESTART_PATIENCE, 0.0
            await asyncio.sleep(pause)

    async def put_artifact(self, data: bytes) -> str:
        """Store bytes; returns the URI ``artifact:sha256:<hex>``."""
        return await self._bus.put_artifact(data)

    async def get_artifact(self, uri: str) -> bytes:
        """The bytes that ``artifact:sha256:<hex>`` names, digest checked. Raises ArtifactError."""
        return await self._bus.get_artifact(uri)

    async def receive_bundle(self, run_id: str, file: IO[bytes], *, limit: int) -> BundlePart:
        """Write the archive of a run's sealed bundle, ``limit`` bytes at most, to ``file``; publishers get only their own
        runs'.

        It is not verified yet. Returns its description, without data. Raises MalformedError (``run_unknown``,
        ``run_not_ended``), UnavailableError (``stored_bundle_missing``), VerificationError, LimitError.
        """
        return await receive_bundle(self._bus, self._subjects["bundle"], _check_run_id(run_id), file, limit)

    async def attach(self, name: str, data: bytes) -> Artifact:
        """``data`` as an entry of ``artifacts``: inside the document when it is small, else through the object store."""
        if len(data) <= INLINE_LIMIT:
            return inline_artifact(name, data)
        return Artifact(name=name, uri=await self.put_artifact(data), sha256=hashlib.sha256(data).hexdigest())

    async def _submit(self, data: bytes, schema: str, patience: float, headers: Mapping[str, str]) -> str:
        begun, subject = self._clock.monotonic(), self._subjects["submit"]
        give_up, silent_until = begun + patience, begun + max(patience, SUBMIT_TIMEOUT)
        while True:
            try:
                answer = await self._bus.request(subject, data, schema=schema, timeout=ASK_AGAIN, headers=headers)
                return decode_answer(answer, SubmitReply).run_id
            except UnavailableError as error:
                if error.reason == "bus_no_answer" and self._clock.monotonic() < silent_until:
                    continue
                at_once = isinstance(error, BusError) and error.reason not in BUSY
                if not (at_once or isinstance(error, LimitError) or passes(error.reason)):
                    raise
                pause = RETRY_PAUSE if at_once else (isinstance(error, LimitError) and error.retry_after) or PASSING_PAUSE
                if self._clock.monotonic() + (0 if at_once else pause) >= give_up:
                    raise
                await asyncio.sleep(pause)


class Connecting:
    """A connection about to be made: ``await`` it, or enter it and have it closed at the end."""

    def __init__(self, address: BusAddress, requested_by: str, patience: float) -> None:
        self._address = address
        self._requested_by = requested_by
        self._patience = patience
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open_client().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open_client()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _open_client(self) -> Client:
        # Imported late: a program with a bus of its own does not need the NATS client.
        from gatewright.bus.jetstream.bus import JetStreamBus

        bus = await JetStreamBus.connect(self._address, name="publisher", patience=self._patience)
        return Client(bus, requested_by=self._requested_by, publisher=bus.publisher, reads_ledger=bus.reads_ledger)


def inline_artifact(name: str, data: bytes) -> Artifact:
    """``data`` as an artifact that carries its bytes in a ``data:`` URI (RFC 2397)."""
    uri = inline_uri(data)
    return Artifact(name=name, uri=uri, sha256=hashlib.sha256(data).hexdigest())


def _document(given: D | Mapping[str, Any], kind: type[D]) -> D:
    if isinstance(given, kind):
        return given
    # Through JSON and back, so that a wrong document is refused here with every fault named.
    return codec.decode(json_of(given), kind)


def json_of(given: object) -> bytes:
    """A caller's document as JSON. Raises MalformedError for one that holds what JSON has no form of."""
    try:
        return msgspec.json.encode(given)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedError(f"this cannot be written as JSON: {error}") from error


def _check_run_id(run_id: str) -> str:
    """A run id becomes part of a subject, where ``*`` and ``.`` have a meaning: only a well-formed one may."""
    try:
        return msgspec.convert(run_id, RunId)
    except msgspec.ValidationError as error:
        words = f"{run_id!r} is not a run id, which is 8 to 64 letters, digits, `-` and `_`; `gatewright runs` lists them"
        raise MalformedError(words, code="run_id_invalid") from error
