"""A publisher that sends more than a process can read is cut off by the server; on its own connection, and on no other's."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gatewright.bus import identities
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.port import PUBLISHER_HEADER, Message
from gatewright.bus.topology import SUBMIT_SUBJECT, answer_subject, question_subject
from gatewright.clock import SystemClock
from gatewright.contracts import AgentAnswer, AgentQuestion, SubmitReply, codec
from gatewright.contracts.vocabulary import Repository
from gatewright.service.process import Readiness, Service
from gatewright.services.gatekeeper.service import serve
from gatewright.services.gatekeeper.settings import Settings
from gatewright.tasks.protocol import TaskRef
from gatewright.tasks.questions import Leave, PublisherQuestions
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_request
from tests.faults.bus_parties import NAMED, Bus, open_bus
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

#: More than a server holds back for one connection (64 MiB) and what the kernel takes beside it, in messages of full size.
MESSAGES = 12
#: A process of its own: it is ready, and waits for the word. While it sends, this one reads nothing: what it sends piles up at
#: the server, for no longer than the server waits for a sign of life.
FLOOD = """
import asyncio, os, socket, sys
import nats

async def flood(url, seed, subject):
    client = await nats.connect(url, nkeys_seed_str=seed, inbox_prefix="_INBOX_publisher")
    wire = socket.socket(fileno=os.dup(client._transport._io_writer.get_extra_info("socket").fileno()))
    message = b"PUB %%b _INBOX_publisher.flood 8000000\\r\\n%%b\\r\\n" %% (subject.encode(), bytes(8_000_000))
    print("ready", flush=True)
    sys.stdin.readline()
    wire.settimeout(60)
    for _ in range(%d):
        wire.sendall(message)
    print("sent", flush=True)
    await client.close()

asyncio.run(flood(*sys.argv[1:]))
"""


@dataclass
class Watched:
    """A bus of a process, and how often its connection came back."""

    bus: JetStreamBus
    reconnects: list[bool] = field(default_factory=list)

    @classmethod
    async def connect(cls, server: Bus, identity: str) -> Watched:
        watched = cls(await JetStreamBus.connect(server.server.address(identity), name=identity))
        watched.bus.connection.watch(lambda: watched.reconnects.append(watched.bus.connected))
        return watched


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Bus]:
    async with open_bus(tmp_path) as opened:
        yield opened


async def flood(server: Bus, subject: str) -> None:
    """The plain publisher floods one of its own subjects, while this process reads nothing."""
    seed = identities.load(server.server.address(identities.PUBLISHER).seed or Path()).seed
    argv = [sys.executable, "-c", FLOOD % MESSAGES, server.server.url, seed, subject]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flooding:  # noqa: ASYNC220 - it waits
        assert flooding.stdin is not None
        assert flooding.stdout is not None
        await asyncio.to_thread(flooding.stdout.readline)
        flooding.stdin.write("go\n")
        flooding.stdin.flush()
        assert flooding.stdout.readline() == "sent\n"


@contextlib.asynccontextmanager
async def gatekeeping(watched: Watched, home: Path) -> AsyncIterator[None]:
    stop, log = asyncio.Event(), make_logger(level="error")
    readiness = Readiness({"registration": "no"})
    service = Service("gatekeeper", watched.bus, SystemClock(), log, Metrics("gatekeeper"), readiness, stop)
    serving = asyncio.create_task(serve(service, Settings(home=home, publishers=("ci",), drain_seconds=0.1)))
    try:
        while readiness.missing:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0.01)
        yield
    finally:
        stop.set()
        await asyncio.wait_for(serving, PATIENCE)


@pytest.mark.long
async def test_a_flood_of_submissions_blocks_neither_gatekeeper_nor_other_publishers(
    server: Bus, make_repository: MakeRepository, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gatekeeper = await Watched.connect(server, "gatekeeper")
    named = await JetStreamBus.connect(server.server.address(NAMED), name="ci")
    request = make_request(repository=Repository(url=make_repository().url), baseline_ref="HEAD")
    async with gatekeeping(gatekeeper, tmp_path / "home"):
        subject = f"{SUBMIT_SUBJECT}.ci"
        asking = asyncio.create_task(named.request(subject, codec.encode(request), schema="run_request.v1", timeout=PATIENCE))
        await named.connection.flush()
        await flood(server, SUBMIT_SUBJECT)
        answer = await asyncio.wait_for(asking, PATIENCE)
        assert codec.decode(answer.data, SubmitReply).run_id.startswith("run-")
        assert gatekeeper.reconnects == []
        async with asyncio.timeout(PATIENCE):
            while not re.search(r"interrupted the connection for .*gw\.submit", caplog.text):  # noqa: ASYNC110 - a log gives no sign
                await asyncio.sleep(0.05)
    await named.close()
    await gatekeeper.bus.close()


async def test_a_flood_of_answers_blocks_neither_workers_nor_other_publishers(server: Bus) -> None:
    worker = await Watched.connect(server, "worker")
    named = await JetStreamBus.connect(server.server.address(NAMED), name="ci")
    questions = PublisherQuestions(worker.bus, seconds=120)
    put: asyncio.Queue[AgentQuestion] = asyncio.Queue()

    async def hear(message: Message) -> None:
        put.put_nowait(codec.decode(message.data, AgentQuestion))

    await named.listen(question_subject("ci"), hear)
    task = Message("gw.task.worker.default.normal", b"", {PUBLISHER_HEADER: "ci"})
    ask = questions.of(TaskRef("run-0123456789", "run-0123456789.plan.w01"), task)
    asking: asyncio.Future[Leave] = asyncio.ensure_future(ask("codex", "make test"))
    question = await asyncio.wait_for(put.get(), PATIENCE)
    await flood(server, answer_subject("default"))
    answer = AgentAnswer(
        question_id=question.question_id, run_id=question.run_id, task_id=question.task_id, allow=True, answered_by="anna"
    )
    await named.broadcast(answer_subject("ci"), codec.encode(answer))
    assert await asyncio.wait_for(asking, PATIENCE) == Leave(allow=True, by="person", person="ci anna")
    assert worker.reconnects == []
    for opened in (named, worker.bus):
        await opened.close()
