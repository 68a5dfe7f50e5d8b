"""Agents' questions to people of a rule, on the real server: workers alone bring them, and no other identity answers one."""

from __future__ import annotations

from pathlib import Path

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from gatewright.bus.topology import LEAVE_SUBJECT
from tests.faults.bus_parties import SIBLING, open_bus
from tests.waiting import PATIENCE

WORKERS = {"worker", SIBLING}


async def test_workers_alone_ask_and_the_gatekeeper_alone_hears(tmp_path: Path) -> None:
    async with open_bus(tmp_path) as bus:
        heard: list[str] = []

        async def answer(message: Msg) -> None:
            heard.append(message.data.decode())
            await message.respond(b"yes")

        await bus.parties["gatekeeper"].client.subscribe(LEAVE_SUBJECT, cb=answer)
        eavesdroppers = {name: party for name, party in bus.parties.items() if name != "gatekeeper"}
        overheard: list[str] = []
        for name, party in eavesdroppers.items():

            async def overhear(_: Msg, name: str = name) -> None:
                overheard.append(name)

            await party.client.subscribe(LEAVE_SUBJECT, cb=overhear)
        await bus.settle()
        for name, party in eavesdroppers.items():
            if name in WORKERS:
                assert (await party.client.request(LEAVE_SUBJECT, name.encode(), timeout=PATIENCE)).data == b"yes"
                continue
            with pytest.raises((NatsTimeoutError, NoRespondersError)):
                await party.client.request(LEAVE_SUBJECT, name.encode(), timeout=1)
            assert party.was_refused("publish", LEAVE_SUBJECT), name
        assert set(heard) == WORKERS
        assert overheard == []


async def test_no_identity_answers_in_a_workers_inbox_or_hears_what_comes_there(tmp_path: Path) -> None:
    """Two workers are two users of one account, whose role may be heard by its processes alone."""
    async with open_bus(tmp_path) as bus:
        believed: list[str] = []

        async def hear(message: Msg) -> None:
            believed.append(message.data.decode())

        worker = bus.parties["worker"]
        await worker.client.subscribe("_INBOX_worker.asked", cb=hear)
        await bus.settle()
        for name, party in bus.parties.items():
            await party.client.publish("_INBOX_worker.asked", name.encode())
        await bus.settle()
        assert believed == []
