"""Incremental reading of a stream of server-sent events, in bounded memory, for its token counts. It changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gatewright.errors import DeniedError

#: Bytes of one event.
LARGEST_EVENT = 16 << 20


class EventReader:
    """Gives the JSON objects of the ``data`` fields; what is none (``[DONE]``, comments) is no event."""

    def __init__(self, largest: int = LARGEST_EVENT) -> None:
        self._largest = largest
        self._line = bytearray()
        self._data = bytearray()
        self.malformed = 0

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The events that ``chunk`` completes. Raises DeniedError (``model_reply_too_large``) for one beyond all bounds."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._line += chunk[start:end]
            start = end + 1
            yield from self._end_of_line()
        self._line += chunk[start:]
        self._check_size()

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the events completed by the end of the stream: a last event may lack its blank line."""
        yield from self._end_of_line()
        yield from self._end_of_event()

    def _end_of_line(self) -> Iterator[dict[str, Any]]:
        line = bytes(self._line).rstrip(b"\r")
        self._line.clear()
        if not line:
            yield from self._end_of_event()
        elif line.startswith(b"data:"):
            self._data += (b"\n" if self._data else b"") + line[5:].removeprefix(b" ")
            self._check_size()

    def _end_of_event(self) -> Iterator[dict[str, Any]]:
        data = bytes(self._data)
        self._data.clear()
        if not data or data == b"[DONE]":
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            self.malformed += 1
            return
        if isinstance(event, dict):
            yield event
        else:
            self.malformed += 1

    def _check_size(self) -> None:
        if len(self._line) + len(self._data) > self._largest:
            raise DeniedError("one event of the reply is larger than any reply has", code="model_reply_too_large")
