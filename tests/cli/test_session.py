"""A command that uses the stack of a home folder ends when that stack does; the next one may have another address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatewright.app.cli import session
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.people.inbox import open_inbox
from gatewright.app.cli.session import attach_client
from gatewright.app.stack import state
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.processes import identity
from gatewright.bus.identities import BusAddress
from gatewright.errors import UnavailableError

Change = Callable[[Path], None]


def announce(home: Path, url: str) -> None:
    who = identity(os.getpid())
    assert who is not None
    keys = str(home / "bus")
    state.write(
        home,
        state.StackState(
            pid=os.getpid(), boot=who.boot, started=who.started, url=url, keys=keys, home=str(home), shared=True, workers=1
        ),
    )


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A home folder whose stack is a NATS server alone."""
    monkeypatch.setattr(session, "_LOOK_FOR_END", 0.01)
    async with await NatsServer.start(tmp_path / "nats", keys=tmp_path / "bus") as server:
        announce(tmp_path, server.url)
        yield tmp_path


def goes_down(home: Path) -> None:
    (home / state.STATE_FILE).unlink()


def comes_up_elsewhere(home: Path) -> None:
    announce(home, "nats://127.0.0.1:1")


@pytest.mark.parametrize("change", [goes_down, comes_up_elsewhere])
async def test_followers_of_a_stopped_stack_learn_how_to_continue(home: Path, change: Change) -> None:
    with pytest.raises(UnavailableError) as told:  # noqa: PT012 - what is waited for ends
        async with attach_client(None, home):
            change(home)
            await asyncio.Event().wait()
    assert told.value.reason == "stack_gone"
    assert "gatewright up" in told.value.message


async def test_a_stopped_stack_ends_the_wait_for_requests(home: Path) -> None:
    with pytest.raises(UnavailableError) as told:  # noqa: PT012
        async with open_inbox(CommandContext(here=home, home=home, bus=None, key=home / "key")):
            goes_down(home)
            await asyncio.Event().wait()
    assert told.value.reason == "stack_gone"


async def test_a_stack_that_is_there_ends_nothing(home: Path) -> None:
    loop, looked = asyncio.get_running_loop(), asyncio.Semaphore(0)

    def read(folder: Path) -> state.StackState | None:
        loop.call_soon_threadsafe(looked.release)
        return state.read(folder)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session, "read", read)
        async with attach_client(None, home) as client:
            for _ in range(5):
                await looked.acquire()
            assert client.bus.connected
    with pytest.raises(TimeoutError, match="its own"):
        async with attach_client(None, home):
            raise TimeoutError("its own")


async def test_a_bus_that_was_named_is_no_stack_of_the_home_folder(home: Path) -> None:
    running = state.read(home)
    assert running is not None
    named: BusAddress = running.address()
    goes_down(home)
    async with attach_client(named, home) as client:
        assert client.bus.connected
        assert [task.get_name() for task in asyncio.all_tasks() if "_end_with" in repr(task.get_coro())] == []
