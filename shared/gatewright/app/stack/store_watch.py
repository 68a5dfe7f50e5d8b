"""Whether the embedded NATS server stores messages, and whether a restart would help if it does not.

A stream that met a full disk stays in write error until the server restarts, and a server reserves a share of the disk that
was free at its start. The monitoring address shows both. This module stops and starts nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from gatewright.errors import UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.host_errors import LEAST_FREE, check_room

#: Seconds between two looks.
LOOK: Final = 1.0
#: A server's default share of the free and own disk space for its streams.
SHARE: Final = 0.75
_ANSWER_SECONDS = 5.0

#: Path of the monitoring address -> status and body.
Get = Callable[[str], Awaitable[tuple[int, bytes]]]


class _Config(msgspec.Struct):
    max_storage: int = 0


class _JetStream(msgspec.Struct):
    """The fields that are read of ``/jsz``."""

    storage: int = 0
    disabled: bool = False
    config: _Config = msgspec.field(default_factory=_Config)


async def fault(get: Get) -> str:
    """Return why the server does not store; empty if it does. Raises OSError if it does not answer."""
    status, body = await get("/healthz")
    if status != 200:
        return _error_in(body) or f"it answers with status {status}"
    jetstream = await _jetstream(get)
    if jetstream.disabled:
        return "JetStream is switched off"
    if jetstream.config.max_storage <= jetstream.storage:
        return f"its streams have taken all of the {jetstream.config.max_storage >> 20} MiB that it gave out at its start"
    return ""


async def restart_helps(get: Get, store: Path) -> bool:
    """Return whether the disk has space again, and more of it than the server has reserved."""
    try:
        check_room(store)
    except UnavailableError:
        return False
    status, _ = await get("/healthz")
    if status != 200:
        return True
    jetstream = await _jetstream(get)
    return jetstream.disabled or granted(store, jetstream.storage) > jetstream.storage + LEAST_FREE // 2


def granted(store: Path, taken: int) -> int:
    """Bytes that a server gives out that is started now on ``store``, where its streams have ``taken`` so many."""
    volume = os.statvfs(store)
    return int((volume.f_bavail * volume.f_frsize + taken) * SHARE)


async def until_restart_helps(get: Get, store: Path, changed: Callable[[str], None]) -> None:
    """Return when the server stores nothing and would after a restart; ``changed`` receives its fault, empty when it ends."""
    known = ""
    while True:
        await asyncio.sleep(LOOK)
        try:
            found = await fault(get)
            if found != known:
                known = found
                changed(found)  # and one more look: it may have been a moment's
            elif found and await restart_helps(get, store):
                return
        except (OSError, TimeoutError, UnreadableDocumentError):
            continue  # it is ending, or too busy: its end is watched elsewhere


async def get_page(address: str, path: str) -> tuple[int, bytes]:
    """Return one page of a monitoring address (``http://host:port``). Raises OSError, TimeoutError."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    async with asyncio.timeout(_ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode("ascii"))
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            await writer.wait_closed()
    words = head.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), body


async def _jetstream(get: Get) -> _JetStream:
    _, body = await get("/jsz")
    return read_json(body, _JetStream)


def _error_in(body: bytes) -> str:
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""
