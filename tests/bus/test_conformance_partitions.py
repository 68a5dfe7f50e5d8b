"""Conformance of both backends with a ledger in several streams: each run is one history, whatever their number."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.ledger_layout import LedgerLayout, read_partitions
from gatewright.bus.port import Bus, Message, PublishAck
from gatewright.bus.topology import LEDGER, run_subject
from gatewright.errors import BusError, ConfigurationError, ConflictError
from tests.bus.backends import Backend, JetStreamBackend, MemoryBackend
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE

RUNS = [f"run-{number:020x}" for number in range(24)]
EVERY = run_subject("*")


@pytest.fixture(
    params=[("memory", 1), ("memory", 3), ("jetstream", 1), ("jetstream", 3)], ids=lambda each: f"{each[0]}-{each[1]}"
)
async def divided(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    kind, partitions = request.param
    if kind == "memory":
        memory = MemoryBackend(partitions)
        await memory.ensure()
        yield memory
        await memory.close()
        return
    async with await OpenServer.open(tmp_path / "nats") as server:
        jetstream = JetStreamBackend(server, partitions)
        await jetstream.ensure()
        yield jetstream
        await jetstream.close()


async def append(bus: Bus, run: str, number: int, last: int | None) -> PublishAck:
    data = b"%d" % number
    message_id = f"{run}:{number}"
    return await bus.publish(run_subject(run), data, schema="s", message_id=message_id, expected_subject_sequence=last)


async def write(bus: Bus, runs: Sequence[str], each: int = 3) -> dict[str, list[int]]:
    """So many messages of every run, of all runs in turns; their places."""
    places: dict[str, list[int]] = {run: [] for run in runs}
    for number in range(each):
        for run in runs:
            places[run].append((await append(bus, run, number, max(places[run], default=0))).sequence)
    return places


def by_run(messages: Sequence[Message]) -> dict[str, list[tuple[int, bytes]]]:
    found = defaultdict(list)
    for message in messages:
        found[message.subject.removeprefix(run_subject(""))].append((message.sequence, message.data))
    return dict(found)


async def test_every_run_is_one_ordered_history_with_its_own_positions(divided: Backend) -> None:
    bus = await divided.connect("gatekeeper")
    places = await write(bus, RUNS)
    expected = {run: [(place, b"%d" % number) for number, place in enumerate(of_run)] for run, of_run in places.items()}
    assert by_run([message async for message in bus.replay(EVERY)]) == expected
    for run in RUNS:
        assert by_run([message async for message in bus.replay(run_subject(run))]) == {run: expected[run]}
    flat = list(itertools.chain.from_iterable(places.values()))
    assert len(set(flat)) == len(flat) == 72
    for run, of_run in places.items():
        assert of_run == sorted(of_run)
        for place in of_run:
            found = await bus.stored(LEDGER, place)
            assert found is not None
            assert (found.subject, found.sequence) == (run_subject(run), place)
    assert {bus.layout.partition_at(place) for place in flat} == set(range(bus.layout.partitions))


async def test_reading_resumes_without_repetition_or_gap(divided: Backend) -> None:
    bus = await divided.connect("gatekeeper")
    chance = random.Random(7)  # noqa: S311 - repeatable
    await write(bus, RUNS, 1)
    seen: dict[int, int] = {}
    told: list[int] = []
    for turn in range(1, 6):
        some = chance.sample(RUNS, 9)
        for run in some:
            await append(bus, run, turn, None)
        async for message in bus.replay(EVERY, after=tuple(seen.values())):
            told.append(message.sequence)
            seen[bus.layout.partition_at(message.sequence)] = message.sequence
    assert sorted(told) == sorted(message.sequence for message in [each async for each in bus.replay(EVERY)])
    assert len(told) == 24 + 5 * 9
    assert [each async for each in bus.replay(EVERY, after=tuple(seen.values()))] == []


async def test_of_two_gatekeepers_at_one_place_exactly_one_wins_in_every_partition(divided: Backend) -> None:
    one, other = await divided.connect("gatekeeper-1"), await divided.connect("gatekeeper-2")
    last = {run: (await append(one, run, 0, 0)).sequence for run in RUNS}

    async def contend(run: str) -> list[PublishAck | BaseException]:
        tries = (
            bus.publish(run_subject(run), who, schema="s", message_id=f"{run}:{who!r}", expected_subject_sequence=last[run])
            for bus, who in ((one, b"one"), (other, b"other"))
        )
        return await asyncio.gather(*tries, return_exceptions=True)

    for outcome in await asyncio.gather(*map(contend, RUNS)):
        assert sorted(type(each).__name__ for each in outcome) == ["ConflictError", "PublishAck"]
    assert {len(found) for found in by_run([message async for message in one.replay(EVERY)]).values()} == {2}
    with pytest.raises(ConflictError):
        await append(one, RUNS[0], 5, 0)


async def test_a_repeated_append_keeps_its_position(divided: Backend) -> None:
    bus = await divided.connect("gatekeeper")
    for run in RUNS:
        first = await append(bus, run, 0, 0)
        again = await append(bus, run, 0, 0)
        assert (again.sequence, again.duplicate) == (first.sequence, True)


async def test_followers_hear_of_every_run_of_all_partitions_and_leave_at_once(divided: Backend) -> None:
    bus, reader = await divided.connect("gatekeeper"), await divided.connect("reader")
    await write(bus, RUNS[:6], 1)
    wanted = {run: [b"0", b"1"] for run in RUNS[:12]}
    heard: dict[str, list[bytes]] = defaultdict(list)
    async with asyncio.timeout(PATIENCE), aclosing(reader.replay(EVERY, follow=True)) as messages:
        async for message in messages:
            heard[message.subject.removeprefix(run_subject(""))].append(message.data)
            if sum(map(len, heard.values())) == 6:
                await write(bus, RUNS[6:12], 1)
                for run in RUNS[:12]:
                    await append(bus, run, 1, None)
            if sum(map(len, heard.values())) == 24:
                break
    assert heard == wanted
    await append(bus, RUNS[0], 2, None)


async def test_a_replay_ends_at_what_existed_when_it_began(divided: Backend) -> None:
    bus = await divided.connect("gatekeeper")
    await write(bus, RUNS, 1)
    seen = 0
    async for message in bus.replay(EVERY):
        seen += 1
        await append(bus, message.subject.removeprefix(run_subject("")), 1, None)
    assert seen == 24


async def test_the_streams_are_read_in_the_order_in_which_messages_were_stored(divided: Backend) -> None:
    bus = await divided.connect("gatekeeper")
    await write(bus, RUNS)
    times = [message.stored_at async for message in bus.replay(EVERY)]
    assert times == sorted(times)
    assert min(times) > 0


def test_the_partition_of_a_run_matches_the_servers_partition() -> None:
    # FNV-1a of 32 bits of the published test vectors, modulo the number.
    for text, digest in (("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)):
        for partitions in (1, 2, 3, 4, 64):
            assert LedgerLayout(partitions).partition_of(text) == digest % partitions


def test_runs_are_spread_over_all_partitions() -> None:
    runs = [f"run-{random.Random(number).randbytes(10).hex()}" for number in range(4000)]  # noqa: S311 - repeatable
    counts = [0] * 4
    for run in runs:
        counts[LedgerLayout(4).partition_of(run)] += 1
    assert min(counts) > 900


@pytest.mark.parametrize("text", ["0", "65", "-1", "four", "1e3", "99999999999", "٤"])
def test_a_number_that_no_ledger_can_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_partitions(text)


@pytest.mark.parametrize(("begun", "told"), [(1, 3), (3, 1), (3, 2)])
async def test_another_number_than_the_ledger_was_begun_with_is_refused(tmp_path: Path, begun: int, told: int) -> None:
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(BusAddress(server.url, partitions=begun))
        bus = await JetStreamBus.connect(BusAddress(server.url, partitions=begun), name="gatekeeper")
        await write(bus, RUNS, 1)
        with pytest.raises(ConfigurationError) as refused:
            await ensure_topology(BusAddress(server.url, partitions=told))
        assert refused.value.reason == "ledger_partitions_differ"
        wrong = await JetStreamBus.connect(BusAddress(server.url, partitions=told), name="other", patience=0.5)
        with pytest.raises(BusError):
            await append(wrong, RUNS[0], 1, 0)
        for subject in (EVERY, run_subject(RUNS[0]), run_subject("run-of-nobody")):
            for follow in (False, True):
                with pytest.raises(ConfigurationError) as refused:
                    [message async for message in wrong.replay(subject, follow=follow)]
                assert refused.value.reason == "ledger_partitions_differ"
        assert len([message async for message in bus.replay(EVERY)]) == 24
        await bus.close()
        await wrong.close()
