"""A wire between a client and a server that can be cut, stalled, made slow and made to swallow answers. No byte is changed."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_PIECE = 65536


class Wire:
    """Listens on a port of its own and passes on what comes, both ways, to ``target`` on the loopback interface."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._bytes_a_second = 0.0
        self.swallow_answers = False
        self.passed = 0
        #: Set it to have what clients send kept there.
        self.sent: bytearray | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Break every connection; new ones are accepted."""
        for end in self._ends:
            end.transport.abort()

    def stall(self) -> None:
        """Hold back every byte of the connections that exist; both sides believe that they are connected. New ones flow."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()

    def slow(self, bytes_a_second: float) -> None:
        """From the server to the client, from now on; 0: as fast as it goes."""
        self._bytes_a_second = bytes_a_second

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Python 3.11 complains of a connection whose task was cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            await self._connect(reader, writer, self._flows)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        ends = {writer}
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            ends.add(far_writer)
            self._ends |= ends
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, far_writer, flows))
                group.create_task(self._pass(far_reader, writer, flows, answers=True))
        except* OSError:
            pass
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event, *, answers: bool = False
    ) -> None:
        while data := await reader.read(2048 if answers and self._bytes_a_second else _PIECE):
            await flows.wait()
            if answers and self._bytes_a_second:
                await asyncio.sleep(len(data) / self._bytes_a_second)
            if answers and self.swallow_answers:
                continue
            if self.sent is not None and not answers:
                self.sent += data
            writer.write(data)
            await writer.drain()
            self.passed += len(data)
        writer.transport.abort()
