"""Who is found by those who ask all services at once, who may ask, and in whose name a process can answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from gatewright.bus.identities import OBSERVER, OPERATOR, role_of
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.permissions import ASK_PROCESSES
from gatewright.bus.topology import ROLES
from tests.discovery import answers_to
from tests.faults.bus_parties import EVERYBODY, SIBLING, Bus, open_bus
from tests.waiting import PATIENCE

VERBS = ("PING", "INFO", "STATS")
#: Every process that serves: one per role, a second worker with an identity of its own, a third with the first one's.
SERVING = (*ROLES, SIBLING, "worker")


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    async with open_bus(tmp_path) as opened:
        yield opened


@contextlib.asynccontextmanager
async def all_serve(bus: Bus) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as opened:
        for identity in SERVING:
            role = str(role_of(identity))
            process = await JetStreamBus.connect(bus.server.address(identity), name=role)
            opened.push_async_callback(process.close)
            await process.serve(f"gw-{role}", {})
        yield


@pytest.mark.parametrize("verb", VERBS)
async def test_who_asks_all_at_once_finds_every_process_of_every_role(bus: Bus, verb: str) -> None:
    operator = bus.parties[OPERATOR].client
    async with all_serve(bus):
        found = await answers_to(operator, f"$SRV.{verb}", lambda answers: len(answers) == len(SERVING))
        assert sorted(each["name"] for each in found) == sorted(f"gw-{role_of(identity)}" for identity in SERVING)
        assert {each["type"] for each in found} == {f"io.nats.micro.v1.{verb.lower()}_response"}
        for each in found:
            (one,) = await answers_to(operator, f"$SRV.{verb}.{each['name']}.{each['id']}", bool)
            assert one == each


async def test_an_observer_finds_every_process_and_asks_none_of_them_more(bus: Bus) -> None:
    async with all_serve(bus):
        found = await answers_to(bus.parties[OBSERVER].client, "$SRV.PING", lambda answers: len(answers) == len(SERVING))
    assert sorted(each["name"] for each in found) == sorted(f"gw-{role_of(identity)}" for identity in SERVING)


async def test_only_an_operator_can_ask_who_is_there(bus: Bus) -> None:
    """An observer may, of all at once."""
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    names = ("", *(f".gw-{role}" for role in ROLES), ".gw-worker.some-id")
    subjects = [f"$SRV.{verb}{name}" for verb in VERBS for name in names]
    asked_by = {
        identity: [each for each in subjects if identity != OBSERVER or each != ASK_PROCESSES] for identity in EVERYBODY
    }
    others = [bus.parties[identity] for identity in EVERYBODY if identity != OPERATOR]
    async with all_serve(bus):
        for party in others:
            inbox = f"_INBOX_{party.access.identity}.found"
            await party.client.subscribe(inbox, cb=hear)
            for subject in asked_by[party.access.identity]:
                await party.client.publish(subject, b"", reply=inbox)
        await bus.settle()
        assert heard == []
        assert [
            (party.access.identity, subject)
            for party in others
            for subject in asked_by[party.access.identity]
            if not party.was_refused("publish", subject)
        ] == []


async def test_a_role_is_never_asked_under_the_name_of_another(bus: Bus) -> None:
    """To a question to all, a process says what it likes; who asks for a role by its name is answered by that role alone."""
    lie = json.dumps({"type": "io.nats.micro.v1.ping_response", "name": "gw-gatekeeper", "id": "false", "version": "1.0.0"})
    heard: list[tuple[str, str]] = []
    lied = asyncio.Event()

    async def pretend(message: Msg) -> None:
        await message.respond(lie.encode())

    async def hear(message: Msg) -> None:
        asked = message.subject.rpartition(".")[2]
        heard.append((asked, json.loads(message.data)["id"]))
        if heard[-1] == ("all", "false"):
            lied.set()

    others = [role for role in ROLES if role != "worker"]
    named = [f"$SRV.PING.gw-{role}{ending}" for role in others for ending in ("", ".*")]
    hostile, operator = bus.parties["worker"], bus.parties[OPERATOR].client
    for subject in ("$SRV.PING", *named, "$SRV.PING.*", "$SRV.>"):
        await hostile.client.subscribe(subject, cb=pretend)
    await bus.settle()
    assert [subject for subject in named if not hostile.was_refused("subscription", subject)] == []
    async with all_serve(bus):
        await operator.subscribe("_INBOX_operator.asked.*", cb=hear)
        for role in others:
            await operator.publish(f"$SRV.PING.gw-{role}", b"", reply=f"_INBOX_operator.asked.{role}")
        # Its answers come in the order of the questions: after this one there is none to those before.
        await operator.publish("$SRV.PING", b"", reply="_INBOX_operator.asked.all")
        await asyncio.wait_for(lied.wait(), PATIENCE)
    assert [asked for asked, who in heard if who == "false"] == ["all"]
