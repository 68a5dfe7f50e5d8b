"""Agents' questions and their answers on the real server: each publisher hears and answers those of its own runs alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from nats.aio.msg import Msg

from gatewright.bus import identities
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.port import PUBLISHER_HEADER, Message
from gatewright.bus.subjects import matches
from gatewright.client.client import Client
from gatewright.contracts import AgentAnswer, AgentQuestion, codec
from gatewright.tasks.protocol import TaskRef
from gatewright.tasks.questions import Leave, PublisherQuestions
from tests.faults.bus_parties import Bus, open_bus
from tests.waiting import PATIENCE

SUBJECTS = tuple(f"gw.{what}.{whose}" for what in ("question", "answer") for whose in ("default", "ci", "operator", "other"))
REF = TaskRef("run-0123456789", "run-0123456789.plan.w01")


async def test_who_receives_from_whom_is_exactly_what_the_table_lists(tmp_path: Path) -> None:
    """A permitted message reaches its permitted receivers across accounts; the server refuses all others."""
    async with open_bus(tmp_path) as bus:
        heard: set[tuple[str, str, str]] = set()
        for name, party in bus.parties.items():
            for pattern in _talk(party.access.receives()):

                async def hear(message: Msg, name: str = name) -> None:
                    heard.add((name, message.subject, message.data.decode()))

                await party.client.subscribe(pattern, cb=hear)
        await bus.settle()
        for name, party in bus.parties.items():
            for subject in SUBJECTS:
                await party.client.publish(subject, name.encode())
        await bus.settle()
        wanted = {
            (name, subject, sender)
            for sender, party in bus.parties.items()
            for subject in SUBJECTS
            for name, other in bus.parties.items()
            if any(matches(pattern, subject) for pattern in party.access.sends())
            and any(matches(pattern, subject) for pattern in _talk(other.access.receives()))
        }
        assert heard == wanted
        assert ("publisher-ci", "gw.question.ci", "worker") in heard
        assert ("worker-2", "gw.answer.ci", "publisher-ci") in heard
        assert ("operator", "gw.question.operator", "worker") in heard
        assert {sender for _, subject, sender in heard if subject == "gw.answer.ci"} == {"publisher-ci"}
        assert {name for name, subject, _ in heard if subject == "gw.question.ci"} == {"publisher-ci"}


async def test_only_the_publisher_of_the_run_answers_its_agents_questions(tmp_path: Path) -> None:
    async with open_bus(tmp_path) as bus:
        worker = await _connect(bus, "worker")
        own, foreign = await _connect(bus, "publisher-ci"), await _connect(bus, identities.PUBLISHER)
        try:
            questions = PublisherQuestions(worker, seconds=30)
            put: asyncio.Queue[AgentQuestion] = asyncio.Queue()
            client = Client(own, requested_by="anna", publisher="ci")
            await client.hear_questions(put.put)
            await bus.settle()
            ask = questions.of(REF, Message("gw.task.worker.default.normal", b"", {PUBLISHER_HEADER: "ci"}))
            asking = asyncio.ensure_future(ask("codex", "make test"))
            question = await asyncio.wait_for(put.get(), PATIENCE)
            # The other publisher has learned everything about the question, and says yes in every way that it has.
            forged = codec.encode(
                AgentAnswer(question_id=question.question_id, run_id=question.run_id, task_id=question.task_id, allow=True)
            )
            stranger = bus.parties[identities.PUBLISHER]
            await stranger.client.publish("gw.answer.ci", forged)
            await foreign.broadcast("gw.answer.default", forged)
            await bus.settle()
            assert not asking.done()
            assert stranger.was_refused("publish", "gw.answer.ci")
            await client.answer_question(question, allow=False)
            assert await asyncio.wait_for(asking, PATIENCE) == Leave(allow=False, by="person", person="ci anna")
        finally:
            for each in (worker, own, foreign):
                await each.close()


def _talk(patterns: Iterable[str]) -> tuple[str, ...]:
    """Those of ``patterns`` that are about questions; one that covers another would have a message heard twice."""
    found = [each for each in patterns if each.startswith(("gw.question", "gw.answer"))]
    return tuple(each for each in found if not any(matches(other, each) for other in found if other != each))


async def _connect(bus: Bus, identity: str) -> JetStreamBus:
    return await JetStreamBus.connect(bus.server.address(identity), name=identity)
