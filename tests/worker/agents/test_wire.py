"""What an agent says is read in bounds, whatever it says."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from gatewright.errors import AgentWireError
from gatewright.sandbox.port import NetworkAttempts, Stopped
from gatewright.services.worker.agents.wire import JsonLines


class Said:
    """A session whose program says ``parts``, and then is silent (``silent``) or ends. It never reads when ``deaf``."""

    def __init__(self, *parts: bytes, silent: bool = False, deaf: bool = False) -> None:
        self.door = socket.socket()
        self.door.close()
        self.stopped: Stopped = ""
        self.exit_code: int | None = None
        self.attempts: NetworkAttempts | None = None
        self.complaints = b""
        self.heard = b""
        self._parts = list(parts)
        self._silent, self._deaf = silent, deaf

    async def read(self) -> bytes:
        if not self._parts and self._silent:
            await asyncio.Event().wait()
        return self._parts.pop(0) if self._parts else b""

    async def write(self, data: bytes) -> None:
        if self._deaf:
            await asyncio.Event().wait()
        self.heard += data

    def finish(self) -> None:
        self.heard += b"<end>"


async def test_objects_come_one_by_one_however_they_are_cut() -> None:
    text = b'{"a":1}\n\n{"b":"\xc3\xa9"}\r\n'
    for size in (1, 3, len(text)):
        wire = JsonLines(Said(*(text[at : at + size] for at in range(0, len(text), size))))
        assert [await wire.receive() for _ in range(3)] == [{"a": 1}, {"b": "é"}, None]


async def test_lines_of_plain_words_are_passed_over_and_kept() -> None:
    wire = JsonLines(Said(b'Welcome to 1.2!\n{"a":1}\n(node:3) Warning: x\n{"b":2}\n'))
    assert [await wire.receive() for _ in range(3)] == [{"a": 1}, {"b": 2}, None]
    assert wire.banners == ["Welcome to 1.2!", "(node:3) Warning: x"]


async def test_words_without_end_end_the_talk() -> None:
    wire = JsonLines(Said(b"chatter\n" * 1000))
    with pytest.raises(AgentWireError):
        await wire.receive()
    assert len(wire.banners) == 20


async def test_what_comes_after_the_last_line_end_is_no_message() -> None:
    wire = JsonLines(Said(b'{"a":1}\n{"b":'))
    assert [await wire.receive(), await wire.receive(), await wire.receive()] == [{"a": 1}, None, None]


@pytest.mark.parametrize("line", [b"[1]", b"5", b"null", b'"text"', b'{"a":', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000])
async def test_what_is_no_object_ends_the_talk(line: bytes) -> None:
    gc.collect()  # objects of earlier tests cannot be finalised at the depth that a line reaches
    with pytest.raises(AgentWireError) as caught:
        await JsonLines(Said(line + b"\n")).receive()
    assert caught.value.reason == "agent_failed"
    assert len(caught.value.message) < 300


async def test_a_line_without_end_is_not_collected_without_bound() -> None:
    said = Said(*[b"x" * 1000] * 1000)
    with pytest.raises(AgentWireError, match="more than 5000 bytes"):
        await JsonLines(said, line_bytes=5000).receive()
    assert len(said._parts) > 990


async def test_a_flood_of_small_messages_ends_the_talk() -> None:
    wire = JsonLines(Said(*[b'{"a":1}\n'] * 1000), bytes_in_all=80)
    for _ in range(10):
        assert await wire.receive() == {"a": 1}
    with pytest.raises(AgentWireError, match="more than is read"):
        await wire.receive()


async def test_silence_and_deafness_have_their_own_code() -> None:
    with pytest.raises(AgentWireError) as silent:
        await JsonLines(Said(silent=True), silence_seconds=0.01).receive()
    with pytest.raises(AgentWireError) as deaf:
        await JsonLines(Said(deaf=True), send_seconds=0.01).send({"a": 1})
    assert (silent.value.reason, deaf.value.reason) == ("agent_silent", "agent_silent")


async def test_what_is_sent_is_one_line_each() -> None:
    said = Said()
    wire = JsonLines(said)
    await wire.send({"text": "two\nlines"})
    await wire.send({"b": [1]})
    await wire.finish()
    assert said.heard == b'{"text":"two\\nlines"}\n{"b":[1]}\n<end>'
