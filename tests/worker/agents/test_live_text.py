"""What an agent is saying is shown while it says it: now and then, whole words alone, and never in the record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.services.worker.agents import reporter
from gatewright.services.worker.agents.acp.joining_reporter import JoiningReporter
from gatewright.services.worker.agents.live_usage import emit_usage, usage_line
from gatewright.services.worker.agents.port import AgentEvent, AgentMessage, AgentText
from gatewright.services.worker.agents.record import EVENTS, AgentRecord
from gatewright.services.worker.executors.agent import _event_emitter
from gatewright.tasks.activity import Event
from tests.worker.agents import test_claude, test_codex
from tests.worker.agents.talks import Says

#: In pieces, so that this file holds none.
SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_TEXT_SECONDS", 0.0)


def texts(events: list[AgentEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, AgentText)]


async def test_codex_messages_are_received_while_they_are_written() -> None:
    def delta(item: str, text: Any) -> Says:
        return {"method": "item/agentMessage/delta", "params": {"threadId": "thread-1", "itemId": item, "delta": text}}

    said = [
        delta("a", "I lo"),
        delta("a", "ok at "),
        delta("a", "the te"),
        delta("b", "New one"),
        delta("b", None),
        delta("b", 5),
    ]
    _, events, _ = await test_codex.talk(test_codex.Codex(said))
    assert texts(events) == ["I", "I look at", "I look at the", "New", "New", "New"]


async def test_claude_messages_are_received_while_they_are_written() -> None:
    def event(kind: str, **more: Any) -> Says:
        return {"type": "stream_event", "event": {"type": kind, **more}}

    said = [
        event("content_block_start"),
        event("content_block_delta", delta={"type": "text_delta", "text": "The total is "}),
        event("content_block_delta", delta={"type": "text_delta", "text": "wrong"}),
        event("content_block_delta", delta={"type": "input_json_delta", "partial_json": "{"}),
        event("content_block_delta", delta=["odd"]),
        {"type": "stream_event", "event": 5},
        event("content_block_start"),
        event("content_block_delta", delta={"type": "text_delta", "text": "Now it "}),
    ]
    _, events, _ = await test_claude.talk(test_claude.Claude(said))
    assert texts(events) == ["The total is", "The total is", "Now it"]


def test_an_agent_of_the_protocol_is_heard_while_its_message_trickles_in() -> None:
    events: list[AgentEvent] = []
    joining = JoiningReporter(events.append, "/workspace")
    for part in ("Fix", "ing the ", "bug\nnow"):
        joining.part(part, "1")
    joining.flush()
    assert texts(events) == ["Fixing the", "Fixing the bug"]
    assert [event.text for event in events if isinstance(event, AgentMessage)] == ["Fixing the bug\nnow"]


def test_live_text_is_sent_at_most_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_TEXT_SECONDS", 1000.0)
    events: list[AgentEvent] = []
    reporting = reporter.AgentReporter(events.append, "/workspace")
    for number in range(100):
        reporting.text(f"word {number} ".lower)
    assert len(events) <= 1


def test_live_text_is_not_recorded_and_shows_no_secret() -> None:
    live: list[tuple[Event, str]] = []
    record = AgentRecord("prompt")
    emit = _event_emitter(record, lambda event, text: live.append((event, text)))
    emit(AgentText(text=f"the key is {SECRET} and {'word ' * 200}"))
    emit(AgentText(text=f"the key is {SECRET} as"))
    assert [event for event, _ in live] == ["text", "text"]
    assert all(SECRET not in text and len(text) <= 400 for _, text in live)
    assert live[1][1].startswith("the key is ")
    assert record.logs()[EVENTS] == b""


async def test_usage_is_reported_repeatedly_until_the_end() -> None:
    told: list[tuple[Event, str]] = []
    used = Usage(delivery="1.1", tokens=1200, cost_usd=0.0, iterations=3)
    enough = asyncio.Event()

    def tell(event: Event, text: str) -> None:
        told.append((event, text))
        if len(told) >= 2:
            enough.set()

    async with emit_usage(lambda: used, None, 300.0, tell, every=0.001):
        await enough.wait()
    count = len(told)
    await asyncio.sleep(0.01)
    assert len(told) == count
    assert told[0] == ("usage", "1,200 tokens, 3 turns, 0 of 300 s")


@pytest.mark.parametrize(
    ("usage", "budget", "line"),
    [
        (
            Usage(delivery="1.1", tokens=5, cost_usd=0.12345, iterations=1),
            Budget(),
            "5 tokens, 0.1235 USD, 1 turns, 41 of 300 s",
        ),
        (
            Usage(delivery="1.1", tokens=5, cost_usd=0.0, iterations=1, unpriced=True),
            Budget(tokens=10, cost_usd=1.0, iterations=4),
            "5 of 10 tokens, unknown USD, limit 1, 1 of 4 turns, 41 of 300 s",
        ),
    ],
)
def test_what_is_used_stands_beside_its_limits(usage: Usage, budget: Budget, line: str) -> None:
    assert usage_line(usage, budget, 41.2, 300.0) == line
