"""Messages that nobody wrote into the ledger and that lie there all the same; and a ledger that is really damaged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.aio.client import Client as NatsClient

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Bus
from gatewright.bus.topology import run_subject
from gatewright.client import Client
from gatewright.contracts import Transition, codec
from gatewright.errors import ConflictError, MalformedError
from gatewright.ledger.store import NOWHERE, Ledger, Position
from tests.client.conftest import make_run
from tests.gatekeeper.simulated_run import RUN_ID
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE

SUBJECT = run_subject(RUN_ID)
OTHER = "run-9876543210"


@dataclass
class Shelf:
    """A ledger, what it said of foreign messages, and the run that is written into it."""

    bus: Bus
    told: list[tuple[str, int]] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=lambda: make_run().transitions)

    def ledger(self) -> Ledger:
        return Ledger(self.bus, lambda run_id, sequence: self.told.append((run_id, sequence)))

    async def throw(self, data: bytes, *, schema: str = "") -> None:
        """Put something under the run's subject, past everything that a gatekeeper would do."""
        await self.bus.publish(
            SUBJECT, data, schema=schema or "something.v1", message_id=f"thrown:{len(self.told)}:{data[:99]!r}"
        )

    async def write(self, *numbers: int) -> Position:
        """Append those transitions of the run, in the orderly way."""
        ledger = self.ledger()
        position = await ledger.load(RUN_ID)
        for number in numbers:
            position = await ledger.append(position, self.transitions[number - 1])
        return position


@pytest.fixture
async def shelf() -> AsyncIterator[Shelf]:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    yield Shelf(bus)
    await bus.close()


def as_bytes(transitions: Sequence[Transition]) -> list[bytes]:
    return [codec.encode(transition) for transition in transitions]


def api_answer() -> bytes:
    return b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"TASKS"}}'


@pytest.mark.parametrize("thrown", [api_answer(), b"", b"\xff\x00", b"null", b'{"number":1,"events":[]}', b"[" * 100_000])
async def test_what_is_no_transition_is_passed_over_and_stands_in_nobodys_way(shelf: Shelf, thrown: bytes) -> None:
    await shelf.throw(thrown)
    await shelf.write(1, 2)
    await shelf.throw(thrown + b" ")
    last = await shelf.write(*range(3, len(shelf.transitions) + 1))
    assert last.run is not None
    assert last.run.sealed is not None
    assert as_bytes(last.transitions) == as_bytes(shelf.transitions)
    assert len(last.sequences) == len(last.transitions)
    loaded = await shelf.ledger().load(RUN_ID)
    assert as_bytes(loaded.transitions) == as_bytes(last.transitions)
    assert (loaded.sequence, loaded.sequences) == (last.sequence, last.sequences)


async def test_transitions_of_other_runs_and_copies_are_foreign(shelf: Shelf) -> None:
    await shelf.write(1, 2)
    await shelf.throw(codec.encode(replace(shelf.transitions[2], run_id=OTHER)), schema="transition.v1")
    await shelf.throw(codec.encode(shelf.transitions[0]), schema="transition.v1")
    forged = replace(shelf.transitions[1], commands=())
    await shelf.throw(codec.encode(forged), schema="transition.v1")
    position = await shelf.write(3)
    assert as_bytes(position.transitions) == as_bytes(shelf.transitions[:3])
    assert position.sequence == 6


async def test_each_foreign_message_is_reported_once(shelf: Shelf) -> None:
    await shelf.throw(api_answer())
    await shelf.write(1)
    await shelf.throw(b"again")
    shelf.told.clear()
    ledger = shelf.ledger()
    for _ in range(3):
        await ledger.load(RUN_ID)
    assert shelf.told == [(RUN_ID, 1), (RUN_ID, 3)]


async def test_a_foreign_message_between_read_and_write_is_a_conflict(shelf: Shelf) -> None:
    ledger = shelf.ledger()
    await shelf.throw(api_answer())
    with pytest.raises(ConflictError):
        await ledger.append(NOWHERE, shelf.transitions[0])
    position = await ledger.load(RUN_ID)
    assert (position.run, position.sequence) == (None, 1)
    assert (await ledger.append(position, shelf.transitions[0])).run is not None


async def test_a_missing_entry_is_refused(shelf: Shelf) -> None:
    await shelf.write(1)
    await shelf.throw(codec.encode(shelf.transitions[2]), schema="transition.v1")
    with pytest.raises(MalformedError) as refused:
        await shelf.ledger().load(RUN_ID)
    assert refused.value.reason == "ledger_gap"


async def test_an_altered_entry_is_refused_also_when_it_is_the_last(shelf: Shelf) -> None:
    await shelf.write(1)
    second = shelf.transitions[1]
    altered = replace(second, events=(replace(second.events[0], level="ERROR"), *second.events[1:]))
    await shelf.throw(codec.encode(altered), schema="transition.v1")
    with pytest.raises(MalformedError) as refused:
        await shelf.ledger().load(RUN_ID)
    assert refused.value.reason == "chain_digest"


async def test_an_entry_whose_bytes_are_torn_is_refused(shelf: Shelf) -> None:
    await shelf.write(1)
    await shelf.throw(codec.encode(shelf.transitions[1])[:-20], schema="transition.v1")
    with pytest.raises(MalformedError) as refused:
        await shelf.ledger().load(RUN_ID)
    assert refused.value.reason == "ledger_damaged"


async def test_a_damaged_run_does_not_hide_the_others(shelf: Shelf) -> None:
    await shelf.write(1, 2)
    other = run_subject(OTHER)
    await shelf.bus.publish(other, b"torn", schema="transition.v1", message_id="torn")
    await shelf.bus.publish(run_subject("run-nothing000"), b"x", schema="x.v1", message_id="x")
    unreadable: list[str] = []
    found = [position async for position in shelf.ledger().everything(lambda run_id, _error: unreadable.append(run_id))]
    assert [position.run.run_id for position in found if position.run is not None] == [RUN_ID]
    assert unreadable == [OTHER]


async def test_only_one_of_two_identical_writers_believes_it_wrote(shelf: Shelf) -> None:
    first, second = shelf.ledger(), shelf.ledger()
    await first.append(NOWHERE, shelf.transitions[0])
    with pytest.raises(ConflictError):
        await second.append(NOWHERE, shelf.transitions[0])


async def test_a_server_answer_sent_into_the_ledger_is_harmless(tmp_path: Path) -> None:
    """The attack: a role asks JetStream something, and names a run's subject as the place for the answer."""
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        bus, attacker = await JetStreamBus.connect(server.url, name="gatekeeper"), NatsClient()
        await attacker.connect(server.url)

        async def stored() -> list[int]:
            return [message.sequence async for message in bus.replay(SUBJECT)]

        async def attack(call: str, body: bytes = b"") -> None:
            before = len(await stored())
            await attacker.publish(f"$JS.API.{call}", body, reply=SUBJECT)
            async with asyncio.timeout(PATIENCE):
                while len(await stored()) == before:  # noqa: ASYNC110 - the server does it in its own time
                    await asyncio.sleep(0.01)

        shelf = Shelf(bus)
        try:
            await attack("STREAM.INFO.TASKS")
            await shelf.write(1)
            await attack("STREAM.MSG.GET.RUNS", b'{"last_by_subj":"%s"}' % SUBJECT.encode())
            await shelf.write(2)
            await attack("CONSUMER.INFO.TASKS.nobody")
            await shelf.write(*range(3, len(shelf.transitions) + 1))
            assert len(await stored()) == len(shelf.transitions) + 3, "the attack itself has to succeed"
            assert len(set(shelf.told)) == 3
            client = Client(bus)
            run = await client.wait(RUN_ID, timeout=PATIENCE)
            assert run.sealed is not None
            assert (await client.get(RUN_ID)).head == run.head
            assert len(await client.events(RUN_ID)) == run.seq
        finally:
            await attacker.close()
            await bus.close()
