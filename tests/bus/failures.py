"""Failures made on purpose: a server that ends and comes back, a network that cuts and swallows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from gatewright.errors import UnavailableError
from tests.open_server import OpenServer

PASSWORD = "a-secret-word"


async def restart(server: OpenServer, directory: Path, *, password: str = PASSWORD, kill: bool = False) -> OpenServer:
    """The same server again, on the same port and files; ``kill``: without a chance to write anything."""
    if kill:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(UnavailableError, match="ended by itself"):
            await server.ended()
    await server.stop()
    return await OpenServer.open(directory, port=server.port, password=password)


class Relay:
    """Passes bytes on in both directions until told otherwise."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow_answers = False

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Break every connection; new ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, upstream_writer}
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, upstream_writer), self._pass(upstream_reader, writer, answers=True))
        for end in (writer, upstream_writer):
            self._writers.discard(end)
            end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        while data := await reader.read(65536):
            if not (answers and self.swallow_answers):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
