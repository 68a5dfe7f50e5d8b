"""The asynchronous client: submit work, follow runs, fetch artifacts. It speaks to the bus port and decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Generator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from gatewright.artifacts import inline_uri
from gatewright.bus.port import SCHEMA_HEADER, Bus, Message
from gatewright.bus.topology import ABORT_SUBJECT, SUBMIT_SUBJECT, run_subject
from gatewright.client.refusals import error_of
from gatewright.clock import Clock, SystemClock, new_id
from gatewright.contracts import AbortRequest, Error, OrchestratorEvent, RunRequest, SubmitReply, TaskContract, codec
from gatewright.contracts.vocabulary import Artifact, RunId
from gatewright.errors import BusError, MalformedError, UnavailableError
from gatewright.ledger import chain
from gatewright.ledger.events import BundleSealed
from gatewright.ledger.evolve import evolve
from gatewright.ledger.run import Run
from gatewright.ledger.store import Ledger, read_transition

DEFAULT_URL = "nats://127.0.0.1:4222"
#: Artifacts up to this many bytes travel inside the document, larger ones through the object store.
INLINE_LIMIT = 256 * 1024
#: Seconds that one attempt to submit may take: the gatekeeper fetches the baseline before it answers.
SUBMIT_TIMEOUT = 60.0
#: The reason of a BusError that says: nobody was there to receive it.
NO_RESPONDERS = "bus_no_responders"
#: Seconds between two attempts to reach a gatekeeper that is still starting.
RETRY_PAUSE = 0.02


D = TypeVar("D", RunRequest, TaskContract)


class Client:
    """A publisher's view of Gatewright.

    ``async with Client.connect(url) as client`` is the usual way; ``Client(bus)`` takes any bus that is connected already.
    Every method raises BusError when the bus cannot serve.
    """

    def __init__(self, bus: Bus, *, requested_by: str = "sdk", clock: Clock | None = None) -> None:
        self._bus = bus
        self._requested_by = requested_by
        self._clock = clock or SystemClock()

    @classmethod
    def connect(cls, url: str = DEFAULT_URL, *, requested_by: str = "sdk", patience: float = 10.0) -> Connecting:
        """Connect to a NATS server: await it for a client, or use it as an asynchronous context.

        ``patience``: seconds that this call, and later every single one, waits for a server that is away.
        """
        return Connecting(url, requested_by, patience)

    @property
    def bus(self) -> Bus:
        """The bus that it speaks to, for what reads the ledger itself; closed with the client."""
        return self._bus

    async def close(self) -> None:
        await self._bus.close()

    async def submit_request(self, request: RunRequest | Mapping[str, Any], *, patience: float = 0.0) -> str:
        """Have a request compiled and run; returns the run id, which is in the ledger by then.

        A request without an idempotency key is given one, so that an attempt whose answer was lost can be made again:
        for ``patience`` seconds it is, while no gatekeeper answers. Raises MalformedError (with every fault), DeniedError.
        """
        document = _document(request, RunRequest)
        if document.idempotency_key is None:
            document = msgspec.structs.replace(document, idempotency_key=new_id())
        return await self._submit(codec.encode(document), "run_request.v1", patience, again_after_silence=True)

    async def submit_contract(self, contract: TaskContract | Mapping[str, Any], *, patience: float = 0.0) -> str:
        """Run a task contract as it is; returns the run id. Raises as ``submit_request`` does.

        A contract has no idempotency key: it is sent again only when it is certain that nobody has received it.
        """
        document = _document(contract, TaskContract)
        return await self._submit(codec.encode(document), "task_contract.v1", patience, again_after_silence=False)

    async def follow(self, run_id: str) -> AsyncGenerator[OrchestratorEvent, None]:
        """The events of a run from its first one on, live, up to and with ``bundle_sealed``.

        A run that does not exist yet is waited for. The hash chain is checked: raises VerificationError when the events
        are not a chain, MalformedError when the ledger holds something that is no transition.
        """
        seq, head = 0, chain.GENESIS
        async with contextlib.aclosing(self._bus.replay(run_subject(_checked(run_id)), follow=True)) as messages:
            async for message in messages:
                events = read_transition(message.data, run_id).events
                seq, head = chain.check(events, seq=seq, head=head)
                for event in events:
                    yield event
                    if event.event_type == BundleSealed.event_type:
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
        """The run as it stands now. Raises MalformedError (code ``run_unknown``)."""
        position = await Ledger(self._bus).load(_checked(run_id))
        if position.run is None:
            raise MalformedError(f"there is no run {run_id}", code="run_unknown")
        return position.run

    async def events(self, run_id: str) -> tuple[OrchestratorEvent, ...]:
        """The events of a run so far, their chain checked; none for a run that does not exist."""
        found: list[OrchestratorEvent] = []
        async for message in self._bus.replay(run_subject(_checked(run_id))):
            found.extend(read_transition(message.data, run_id).events)
        chain.check(found)
        return tuple(found)

    async def runs(self) -> tuple[Run, ...]:
        """Every run in the ledger that can be read, oldest first."""
        listed = Ledger(self._bus).everything(lambda _run_id, _error: None)
        found = [position.run async for position in listed if position.run is not None]
        return tuple(sorted(found, key=lambda run: (run.created_at, run.run_id)))

    async def abort(self, run_id: str, reason: str) -> None:
        """Ask that a run be ended. The run says itself when it is: follow it. Asking for an ended run changes nothing."""
        request = AbortRequest(run_id=_checked(run_id), reason=reason, requested_by=self._requested_by)
        await self._bus.publish(
            ABORT_SUBJECT, codec.encode(request), schema="abort_request.v1", message_id=f"{run_id}:abort:{new_id()}"
        )

    async def put_artifact(self, data: bytes) -> str:
        """Store bytes; returns the URI ``artifact:sha256:<hex>``."""
        return await self._bus.put_artifact(data)

    async def get_artifact(self, uri: str) -> bytes:
        """The bytes that ``artifact:sha256:<hex>`` names, digest checked. Raises ArtifactError."""
        return await self._bus.get_artifact(uri)

    async def attach(self, name: str, data: bytes) -> Artifact:
        """``data`` as an entry of ``artifacts``: inside the document when it is small, else through the object store."""
        if len(data) <= INLINE_LIMIT:
            return inline_artifact(name, data)
        return Artifact(name=name, uri=await self.put_artifact(data), sha256=hashlib.sha256(data).hexdigest())

    async def _submit(self, data: bytes, schema: str, patience: float, *, again_after_silence: bool) -> str:
        give_up = self._clock.monotonic() + patience
        while True:
            try:
                answer = await self._bus.request(SUBMIT_SUBJECT, data, schema=schema, timeout=SUBMIT_TIMEOUT)
            except BusError as error:
                safe = again_after_silence or error.reason == NO_RESPONDERS
                if not safe or self._clock.monotonic() >= give_up:
                    raise
                await asyncio.sleep(RETRY_PAUSE)
            else:
                return _accepted(answer)


class Connecting:
    """A connection about to be made: ``await`` it, or enter it and have it closed at the end."""

    def __init__(self, url: str, requested_by: str, patience: float) -> None:
        self._url = url
        self._requested_by = requested_by
        self._patience = patience
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> Client:
        # Imported late: whoever brings a bus of his own does not need the NATS client.
        from gatewright.bus.jetstream import JetStreamBus

        bus = await JetStreamBus.connect(self._url, name="publisher", patience=self._patience)
        return Client(bus, requested_by=self._requested_by)


def inline_artifact(name: str, data: bytes) -> Artifact:
    """``data`` as an artifact that carries its bytes in a ``data:`` URI (RFC 2397)."""
    uri = inline_uri(data)
    return Artifact(name=name, uri=uri, sha256=hashlib.sha256(data).hexdigest())


def _document(given: D | Mapping[str, Any], kind: type[D]) -> D:
    if isinstance(given, kind):
        return given
    # Through JSON and back, so that a wrong document is refused here with every fault named.
    return codec.decode(msgspec.json.encode(given), kind)


def _accepted(answer: Message) -> str:
    if answer.headers.get(SCHEMA_HEADER) == "error.v1":
        raise error_of(codec.decode(answer.data, Error))
    return codec.decode(answer.data, SubmitReply).run_id


def _checked(run_id: str) -> str:
    """A run id becomes part of a subject, where ``*`` and ``.`` have a meaning: only a well-formed one may."""
    try:
        return msgspec.convert(run_id, RunId)
    except msgspec.ValidationError as error:
        raise MalformedError(f"{run_id!r} is not a run id: {error}", code="run_id_invalid") from error
