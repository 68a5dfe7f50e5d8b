"""JSON-RPC with an agent that may send anything at any time: one outgoing request at a time, incoming ones answered on arrival.

Only the outgoing id assigns an answer. Unexpected answers, and invalid messages, are counted and not parsed. Every wait is
bounded except the turn itself, which the executor's clock ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.port import Wire

#: Requests of an agent in one conversation, and messages that have no meaning, before the conversation is ended.
MAX_REQUESTS: Final = 2_000
MAX_STRAYS: Final = 1_000
#: Messages in all: at one a token, more than any conversation has.
MAX_MESSAGES: Final = 2_000_000
#: An agent that does not read what is sent to it for so long no longer works.
SEND_SECONDS: Final = 30.0
_MAX_ID: Final = 1 << 53
_NOT_ASKED: Final = "answers that were not asked for, or messages that are none"

METHOD_NOT_FOUND: Final = -32601
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602

Id = int | str
Answer = Mapping[str, object]
#: Takes the id, method and parameters of a request of the agent; the answer's ``result`` or ``error`` member.
Answerer = Callable[[Id, str, Mapping[str, object]], Awaitable[Answer]]
Listener = Callable[[str, Mapping[str, object]], None]


class RefusedError(Exception):
    """The agent answered a request of ours with an error."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


def error(number: int, message: str) -> Answer:
    """Return the error member of an answer."""
    return {"error": {"code": number, "message": message}}


class Peer:
    """The first callback answers the agent's requests, the second receives its notifications."""

    def __init__(self, wire: Wire, asked: Answerer, listener: Listener) -> None:
        self._wire = wire
        self._asked = asked
        self._listener = listener
        #: The number of our last request.
        self.last = 0
        self._messages = self._strays = 0
        self._seen: set[Id] = set()
        #: Requests of the agent that came and are not answered yet.
        self.open: list[Id] = []

    async def request(self, method: str, params: Mapping[str, object], *, seconds: float | None) -> Mapping[str, object]:
        """The result of a request; what comes before it is dealt with meanwhile. Raises AgentWireError, RefusedError."""
        number = await self.begin(method, params)
        try:
            async with asyncio.timeout(seconds):
                return await self.result(number)
        except TimeoutError as late:
            raise AgentWireError(f"the agent did not answer {method} within {seconds:g} s") from late

    async def begin(self, method: str, params: Mapping[str, object]) -> int:
        """Send a request, whose ``result`` is to be waited for; its number."""
        self.last += 1
        number = self.last
        await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def result(self, number: int) -> Mapping[str, object]:
        """See ``request``."""
        while True:
            message = await self._receive_answer()
            if message is None:
                continue
            if type(message.get("id")) is int and message["id"] == number:
                return _result(message)
            # To a request that was answered, was given up, or never was.
            self._stray(_NOT_ASKED)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Deal with what comes until ``reached``; no answer is open."""
        while not reached():
            if await self._receive_answer() is not None:
                self._stray(_NOT_ASKED)

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Send a notification to the agent."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answer(self, number: Id, answer: Answer) -> None:
        """Answer a request of the agent."""
        await self._send({"jsonrpc": "2.0", "id": number, **answer})
        if number in self.open:
            self.open.remove(number)

    async def _receive_answer(self) -> Mapping[str, object] | None:
        """The next message if it is an answer; None when it was another, which is dealt with."""
        message = await self._wire.receive()
        if message is None:
            raise AgentWireError("the agent closed its output before it answered")
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise AgentWireError(f"the agent sent more than {MAX_MESSAGES} messages")
        if not isinstance(message.get("method"), str):
            return message
        await self._hear(message)
        return None

    async def _hear(self, message: Mapping[str, object]) -> None:
        method, given = str(message["method"]), message.get("params")
        params: Mapping[str, object] = given if isinstance(given, dict) else {}
        if "id" not in message:
            self._listener(method, params)
            return
        number = message["id"]
        if not (type(number) is int and abs(number) < _MAX_ID) and not (isinstance(number, str) and len(number) <= 200):
            self._stray("requests whose id is none")
            return
        if len(self._seen) >= MAX_REQUESTS:
            raise AgentWireError(f"the agent asked more than {MAX_REQUESTS} times")
        if number in self._seen:
            # Otherwise the agent could choose which of the two an answer is for.
            self._stray("requests under an id that is taken")
            await self.answer(number, error(INVALID_REQUEST, "this id was used before"))
            return
        self._seen.add(number)
        self.open.append(number)
        await self.answer(number, await self._asked(number, method, params))

    def _stray(self, what: str) -> None:
        self._strays += 1
        if self._strays > MAX_STRAYS:
            raise AgentWireError(f"the agent sent more than {MAX_STRAYS} {what}")

    async def _send(self, message: Mapping[str, object]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._wire.send(message)
        except TimeoutError as late:
            raise AgentWireError(f"the agent did not read for {SEND_SECONDS:g} s") from late


def _result(message: Mapping[str, object]) -> Mapping[str, object]:
    fault, result = message.get("error"), message.get("result")
    if fault is None and isinstance(result, dict):
        return result
    if fault is None and "result" in message:
        return {}
    number = fault.get("code") if isinstance(fault, dict) else None
    words = fault.get("message") if isinstance(fault, dict) else None
    raise RefusedError(number if type(number) is int else 0, words[:1000] if isinstance(words, str) else "it gave no reason")
