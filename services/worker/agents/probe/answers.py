"""A wire whose answers to questions are changed on the way: into what a person, or a fault, could make of them as well."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

from gatewright.services.worker.agents.port import Wire

#: ``error``: an error in place of the answer; ``unknown``: an option that was not offered; ``late``: the answer does not come.
Changed = Literal["error", "unknown", "late"]


class ChangedAnswers:
    """The wire of an agent that speaks the Agent Client Protocol. ``asked`` is set when an answer was held back."""

    def __init__(self, wire: Wire, changed: Changed | None) -> None:
        self._wire = wire
        self._changed = changed
        self.asked = asyncio.Event()

    async def receive(self) -> dict[str, object] | None:
        return await self._wire.receive()

    async def receive_text(self) -> str | None:
        return await self._wire.receive_text()

    async def finish(self) -> None:
        await self._wire.finish()

    async def send(self, message: Mapping[str, object]) -> None:
        if self._changed is not None and _is_answer(message):
            if self._changed == "late" and not self.asked.is_set():
                self.asked.set()
                await asyncio.Event().wait()
            message = self._alter_message(message)
        await self._wire.send(message)

    def _alter_message(self, message: Mapping[str, object]) -> Mapping[str, object]:
        rest = {name: value for name, value in message.items() if name != "result"}
        if self._changed == "error":
            return {**rest, "error": {"code": -32603, "message": "no answer can be had"}}
        if self._changed == "unknown":
            return {**rest, "result": {"outcome": {"outcome": "selected", "optionId": "an-option-that-was-not-offered"}}}
        return message


def _is_answer(message: Mapping[str, object]) -> bool:
    result = message.get("result")
    return "method" not in message and isinstance(result, dict) and "outcome" in result
