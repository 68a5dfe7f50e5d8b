"""An agent as a coroutine at the other end of a wire: it reads what the worker sends, and says what a test has it say.

It says it in the version of the protocol that it speaks: a test is the same for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from gatewright.services.worker.agents.acp.conversation import Conversation
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.services.worker.agents.port import AgentEnd, AgentEvent, AgentOrder, AgentPermission, AgentProblem
from tests.worker.agents.acp.draft import breaches

SESSION = "s-1"
END = {"stopReason": "end_turn"}
ORDER = AgentOrder(prompt="do it", directory="/workspace", model="m", base_url="http://127.0.0.1:1", shell="never")

Message = dict[str, Any]


class PlayedAgent:
    """Both ends of a wire in memory: ``receive``, ``send`` and ``finish`` are the worker's, the rest is the agent's."""

    def __init__(self, version: int = 1) -> None:
        self.version = version
        self._to_worker: asyncio.Queue[Message | None] = asyncio.Queue()
        self._to_agent: asyncio.Queue[Message] = asyncio.Queue()
        self.finished = False
        #: All that the worker sent.
        self.sent: list[Message] = []
        #: What in it is not as the draft of version 2 has it.
        self.breaches: list[str] = []

    async def receive(self) -> Message | None:
        return await self._to_worker.get()

    async def receive_text(self) -> str | None:
        raise AssertionError("this agent speaks JSON")

    async def send(self, message: Mapping[str, object]) -> None:
        self.sent.append(dict(message))
        if self.version == 2:
            self.breaches += breaches(message)
        self._to_agent.put_nowait(dict(message))

    async def finish(self) -> None:
        self.finished = True

    async def read(self) -> Message:
        return await self._to_agent.get()

    async def read_until(self, method: str) -> Message:
        while (message := await self.read()).get("method") != method:
            pass
        return message

    def say(self, message: Message) -> None:
        self._to_worker.put_nowait({"jsonrpc": "2.0", **message})

    def send_as_it_is(self, message: Message) -> None:
        self._to_worker.put_nowait(message)

    def leave(self) -> None:
        self._to_worker.put_nowait(None)

    def answer(self, request: Message, result: object) -> None:
        """In version 2 the answer to a prompt accepts it, and its end is told."""
        if self.version == 1 or request["method"] != "session/prompt" or not isinstance(result, dict):
            self.say({"id": request["id"], "result": result})
            return
        self.say({"id": request["id"], "result": {}})
        self.update("state_update", state="running")
        self.update("state_update", state="idle", **result)

    def update(self, kind: str, /, **fields: object) -> None:
        kind = "tool_call_update" if self.version == 2 and kind == "tool_call" else kind
        update = {"sessionUpdate": kind, **fields}
        self.say({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})

    def message(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, messageId="m")

    async def ask(self, number: object, call: Mapping[str, object], *kinds: str, **more: object) -> Message:
        """Ask leave, with one option of each kind, whose ids tell nothing; the worker's answer."""
        options = [{"optionId": f"o{place}", "name": kind, "kind": kind} for place, kind in enumerate(kinds)]
        subject: Message = {"toolCall": {"toolCallId": "c", **call}}
        if self.version == 2:
            subject = {"title": "May I?", "subject": {"type": "tool_call", **subject}}
        params = {"sessionId": SESSION, **subject, "options": options, **more}
        self.say({"id": number, "method": "session/request_permission", "params": params})
        return await self.read_answer(number)

    async def read_answer(self, number: object) -> Message:
        while (answer := await self.read()).get("id") != number or "method" in answer:
            pass
        return answer

    async def stand(self, **capabilities: object) -> Message:
        """Answer until the prompt has come, which is returned."""
        info = {"name": "played", "version": "0"}
        second = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}
        first = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities}
        self.answer(await self.read_until("initialize"), first if self.version == 1 else second)
        while (request := await self.read())["method"] != "session/prompt":
            self.answer(request, {"sessionId": SESSION} if request["method"] == "session/new" else {})
        return request


#: The version that conversations of a test are held in.
SPOKEN: ContextVar[int] = ContextVar("SPOKEN", default=1)

Play = Callable[[PlayedAgent], Coroutine[Any, Any, None]]


class Held:
    """A conversation that was held: how it ended, and what was told."""

    def __init__(self, end: AgentEnd, events: list[AgentEvent], agent: PlayedAgent) -> None:
        self.end = end
        self.events = events
        self.agent = agent

    @property
    def answers(self) -> list[str]:
        return [event.answer for event in self.events if isinstance(event, AgentPermission)]

    @property
    def problems(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, AgentProblem)]


async def converse(play: Play, order: AgentOrder = ORDER, rules: SessionRules | None = None) -> Held:
    """Hold a conversation with an agent that does ``play``."""
    version = SPOKEN.get()
    agent, events = PlayedAgent(version), list[AgentEvent]()
    rules = replace(rules or SessionRules(), version=version)
    playing = asyncio.ensure_future(play(agent))
    # A fault of the test's own must not look like an agent that says nothing more.
    playing.add_done_callback(lambda done: agent.leave() if not done.cancelled() and done.exception() else None)
    try:
        async with asyncio.timeout(60):
            end = await Conversation(agent, order, events.append, "played", rules).hold()
    finally:
        playing.cancel()
        await asyncio.wait({playing})
        assert agent.breaches == []
    if not playing.cancelled():
        playing.result()
    return Held(end, events, agent)
