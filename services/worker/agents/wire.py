"""The agent's standard input and output as JSON objects, one a line. What it sends is hostile: everything is bounded.

A line, all lines together, the silence between them, and the time that it may take to read what it is sent. It does not know
what the objects mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from gatewright.errors import AgentWireError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.sandbox import SandboxSession

__all__ = ["MOST_BYTES", "MOST_LINE_BYTES", "SEND_SECONDS", "SILENCE_SECONDS", "AgentWireError", "JsonLines"]

MOST_LINE_BYTES: Final = 8 << 20
#: An agent that streams its answer word by word repeats itself much.
MOST_BYTES: Final = 512 << 20
#: A model may think for minutes without a word; the time limit of the task is the other bound.
SILENCE_SECONDS: Final = 600.0
SEND_SECONDS: Final = 30.0
#: Lines of plain words that an agent, or its runtime, may print beside its messages.
_MOST_BANNERS: Final = 20
#: Characters of a line that an error quotes.
_QUOTED: Final = 120


class JsonLines:
    """A ``Wire`` over the pipes of ``session``. One reader and one writer at a time."""

    def __init__(
        self,
        session: SandboxSession,
        *,
        line_bytes: int = MOST_LINE_BYTES,
        bytes_in_all: int = MOST_BYTES,
        silence_seconds: float = SILENCE_SECONDS,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._session = session
        self._line_bytes = line_bytes
        self._left = bytes_in_all
        self._silence = silence_seconds
        self._send_seconds = send_seconds
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False
        #: Lines of plain words that were passed over.
        self.banners: list[str] = []

    async def receive(self) -> dict[str, object] | None:
        """See ``Wire.receive``."""
        while (line := await self._read_line()) is not None:
            if _is_banner(line) and len(self.banners) < _MOST_BANNERS:
                self.banners.append(_shorten(line))
            elif line.strip():
                return _object(line)
        return None

    async def receive_text(self) -> str | None:
        """See ``Wire.receive_text``. What comes after the last end of a line is a line as well."""
        line = await self._read_line()
        if line is None and self._buffer:
            line = bytes(self._buffer)
            self._buffer.clear()
            self._searched = 0
        return None if line is None else line.decode("utf-8", "replace")

    async def send(self, message: Mapping[str, object]) -> None:
        """See ``Wire.send``."""
        try:
            async with asyncio.timeout(self._send_seconds):
                await self._session.write(msgspec.json.encode(message) + b"\n")
        except TimeoutError as error:
            raise AgentWireError("the agent does not read what it is sent", code="agent_silent") from error
        except OSError as error:
            raise AgentWireError("the agent no longer listens") from error

    async def finish(self) -> None:
        """See ``Wire.finish``."""
        self._session.finish()

    async def _read_line(self) -> bytes | None:
        """The next line without its end; None at the end of the output. What comes without an end is no line."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > self._line_bytes:
                raise AgentWireError(f"a line of the agent has more than {self._line_bytes} bytes")
            data = b"" if self._ended else await self._read_bytes()
            if not data:
                self._ended = True
                return None
            self._left -= len(data)
            if self._left < 0:
                raise AgentWireError("the agent sent more than is read of one")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    async def _read_bytes(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await self._session.read()
        except TimeoutError as error:
            raise AgentWireError(f"the agent sent nothing for {self._silence:g} s", code="agent_silent") from error


def _is_banner(line: bytes) -> bool:
    """Whether a line is plain words, such as a greeting or a warning of a runtime: nothing that looks like JSON begins so."""
    if not line.strip() or line.lstrip()[:1] in (b"{", b"[", b'"'):
        return False
    try:
        line.decode()
        read_json(line)
    except UnicodeDecodeError:
        return False
    except UnreadableDocumentError:
        return True
    return False


def _object(line: bytes) -> dict[str, object]:
    try:
        found = read_json(line)
    except UnreadableDocumentError as error:
        raise AgentWireError(f"the agent sent invalid JSON: {_shorten(line)}") from error
    if not isinstance(found, dict):
        raise AgentWireError(f"the agent sent no JSON object: {_shorten(line)}")
    return found


def _shorten(line: bytes) -> str:
    text = line[: _QUOTED * 4].decode("utf-8", "replace")[:_QUOTED]
    return "".join(character if character.isprintable() else "?" for character in text)
