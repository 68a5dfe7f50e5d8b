"""``dead`` and ``queue`` against a real server: what operators see and do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Message
from gatewright.bus.topology import task_consumer
from gatewright.tasks.dead_letter import publish_dead_letter
from tests.cli.conftest import Command, Said
from tests.unauthenticated_nats import OpenServer

TASKS = task_consumer("worker")
NASTY = b'{"task_id": "\x1b[2J"}\xff'


@pytest.fixture
async def bus(gatewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JetStreamBus]:
    """The bus that the commands use."""
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        monkeypatch.setenv("GATEWRIGHT_NATS_URL", server.url)
        connected = await JetStreamBus.connect(server.url, name="operator")
        yield connected
        await connected.close()


@pytest.fixture
def say(gatewright: Command) -> Command:
    """Runs a command beside the loop in which the bus lives."""

    def run(*words: str | Path) -> Said:
        return gatewright(*words)

    return run


async def bury(bus: JetStreamBus, number: int = 1, data: bytes = NASTY) -> None:
    message = Message(TASKS.subject, data, {"Gw-Schema": "task_contract.v1", "Nats-Msg-Id": f"task-{number}"}, number)
    await publish_dead_letter(bus, "worker", "TASKS", message, attempts=3, code="denied", reason="no \x1b[31mway")


async def test_letters_are_listed_shown_requeued_and_dropped(bus: JetStreamBus, say: Command) -> None:
    await bury(bus, 1)
    await bury(bus, 2, b"second")
    listed = await asyncio.to_thread(say, "dead", "list", "--json")
    first, second = listed.documents[0]["letters"]
    assert (first["letter"], first["role"], first["subject"], first["code"]) == (1, "worker", TASKS.subject, "denied")
    assert (first["attempts"], first["requeued"], first["decision"]) == (3, 0, None)
    assert 0 <= first["age_sec"] < 60
    shown = (await asyncio.to_thread(say, "dead", "show", "1", "--json")).documents[0]
    assert base64.b64decode(shown["body"]) == NASTY
    assert shown["headers"]["Gw-Dead-Message-Id"] == "task-1"
    said = await asyncio.to_thread(say, "dead", "requeue", str(second["letter"]), "--reason", "mended", "--json")
    assert (said.exit_code, said.documents) == (0, [{"requeued": [2]}])
    assert (await asyncio.to_thread(say, "dead", "drop", "1", "--reason", "an attack")).exit_code == 0
    assert (await asyncio.to_thread(say, "dead", "list", "--json")).documents[0]["letters"] == []
    everything = (await asyncio.to_thread(say, "dead", "list", "--all", "--json")).documents[0]["letters"]
    assert [(each["decision"], each["decision_reason"]) for each in everything] == [
        ("dropped", "an attack"),
        ("requeued", "mended"),
    ]
    delivery = await (await bus.consume(TASKS)).next(3)
    assert delivery is not None
    assert delivery.message.data == b"second"


async def test_what_is_in_a_letter_never_reaches_the_terminal_raw(bus: JetStreamBus, say: Command) -> None:
    await bury(bus)
    for words in (("list",), ("show", "1")):
        said = await asyncio.to_thread(say, "dead", *words)
        assert said.exit_code == 0
        assert "\x1b" not in said.out
    assert "\\x1b[2J" in said.out
    assert "\\xff" in said.out


async def test_mistakes_have_a_code_and_an_exit_code(bus: JetStreamBus, say: Command) -> None:
    await bury(bus)
    await asyncio.to_thread(say, "dead", "drop", "1", "--reason", "x")
    for words, code, ends in (
        (("dead", "show", "99"), "dead_letter_unknown", 2),
        (("dead", "requeue", "1"), "dead_letter_settled", 1),
        (("dead", "drop", "1", "--reason", " "), "invalid_input", 2),
        (("queue", "pause", "nobody"), "queue_unknown", 2),
        (("queue", "pause", "worker", "--pool", "gpu"), "queue_unknown", 2),
        (("queue", "pause", "worker", "--pool", "a.b"), "bad_pool", 2),
        (("queue", "pause", "worker", "--for", "soon"), "invalid_input", 2),
        (("queue", "pause", "worker", "--for", "90d"), "pause_too_long", 2),
    ):
        said = await asyncio.to_thread(say, *words, "--json")
        assert (said.documents[0]["error"]["code"], said.exit_code) == (code, ends), words


async def test_a_queue_is_paused_and_goes_on(bus: JetStreamBus, say: Command) -> None:
    await bus.publish(TASKS.subject, b"x", schema="task_contract.v1", message_id="x")
    paused = await asyncio.to_thread(say, "queue", "pause", "worker", "--for", "10m", "--json")
    assert set(paused.documents[0]["paused"]) == {"worker-default-high", "worker-default-normal", "worker-default-low"}
    assert (await asyncio.to_thread(say, "queue", "resume", "worker", "--class", "low")).exit_code == 0
    listed = (await asyncio.to_thread(say, "queue", "list", "--json")).documents[0]["queues"]
    queues = {each["queue"]: each for each in listed}
    assert queues["worker-default-normal"]["paused_until"]
    assert queues["worker-default-normal"]["waiting"] == 1
    assert queues["worker-default-low"]["paused_until"] is None
    assert len(listed) == 19
    said = await asyncio.to_thread(say, "queue", "resume", "worker", "--json")
    assert said.documents == [{"resumed": ["worker-default-high", "worker-default-normal"]}]
    assert "worker-default-normal" in (await asyncio.to_thread(say, "queue", "list")).out
    assert (await asyncio.to_thread(say, "queue", "pause", "intake", "--for", "5s")).exit_code == 0
