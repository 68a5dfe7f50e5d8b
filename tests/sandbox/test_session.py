"""A program that is talked to: its pipes are ours, its one door is a socket of ours, and its end is the end of all of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.sandbox import DOOR_PORT, HOME_INSIDE, Furnishing, SandboxLimits, SandboxSession
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, processes_with

ASKS_THE_DOOR = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as door:
    door.sendall(b"hello")
    print(door.recv(100).decode(), flush=True)
"""

#: Seconds that no other test on this host sleeps, nor another run of these.
ONE, OTHER, THIRD = (f"5213.{number}{os.getpid()}" for number in (1, 2, 3))


class Talk:
    """Starts programs in one folder."""

    def __init__(self, sandbox: BubblewrapSandbox, place: Folder) -> None:
        self._sandbox, self._place = sandbox, place

    @asynccontextmanager
    async def start(
        self, *argv: str, limits: SandboxLimits = LIMITS, prefix: Path | None = None, furnishing: Furnishing | None = None
    ) -> AsyncIterator[SandboxSession]:
        async with self._sandbox.session(
            argv, workspace=self._place, prefix=prefix, limits=limits, furnishing=furnishing or Furnishing()
        ) as session:
            yield session


@pytest.fixture
def talk(sandbox: BubblewrapSandbox, place: Folder) -> Talk:
    return Talk(sandbox, place)


async def read_all(session: SandboxSession) -> bytes:
    parts = []
    while part := await session.read():
        parts.append(part)
    return b"".join(parts)


async def test_a_program_is_talked_to_while_it_runs(talk: Talk) -> None:
    async with talk.start("cat") as session:
        for word in (b"first\n", b"second\n"):
            await session.write(word)
            assert await session.read() == word
        session.finish()
        assert await session.read() == b""
    assert (session.exit_code, session.stopped) == (0, "")


async def test_no_byte_of_a_long_input_is_lost_at_the_gate(talk: Talk) -> None:
    sent = b"".join(b"%07d\n" % number for number in range(40_000))
    async with talk.start("cat") as session:
        reading = asyncio.ensure_future(read_all(session))
        await session.write(sent)
        session.finish()
        assert await reading == sent


async def test_the_door_inside_is_a_socket_of_ours(talk: Talk, python: Path) -> None:
    async with talk.start("python3", "-c", ASKS_THE_DOOR, str(DOOR_PORT), prefix=python) as session:
        session.door.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LIMITS.wall_seconds):
            connection, _ = await loop.sock_accept(session.door)
        with connection:
            assert await loop.sock_recv(connection, 100) == b"hello"
            await loop.sock_sendall(connection, b"come in")
            assert await session.read() == b"come in\n"


async def test_nothing_on_the_host_is_reachable_at_the_gateway_port(talk: Talk) -> None:
    async with talk.start("cat"):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", DOOR_PORT)


async def test_the_home_is_new_private_writable_and_begins_with_its_files(talk: Talk, place: Folder) -> None:
    furnishing = Furnishing(variables={"COLOUR": "blue"}, files={"of/program.toml": b"a = 1\n"})
    cat = 'cat "$HOME/of/program.toml"; '
    script = cat + 'echo more >>"$HOME/of/program.toml"; echo "$HOME $COLOUR"; ls -A /home; stat -c %a "$HOME"'
    for _ in range(2):
        async with talk.start("sh", "-c", script, furnishing=furnishing) as session:
            said = await read_all(session)
        assert said.decode().splitlines() == ["a = 1", f"{HOME_INSIDE} blue", "agent", "700"]
    assert list(place.path.iterdir()) == []


async def test_an_installation_is_shown_and_cannot_be_written_to(talk: Talk, tmp_path: Path) -> None:
    folder = tmp_path / "installation"
    folder.mkdir(mode=0o755)
    (folder / "program").write_text("#!/bin/sh\necho it runs\n")
    (folder / "program").chmod(0o755)
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    script = f"{folder}/program; touch {folder}/new 2>/dev/null || echo refused"
    async with talk.start("sh", "-c", script, furnishing=Furnishing(shown=(folder,))) as session:
        assert (await read_all(session)).decode().splitlines() == ["it runs", "refused"]


@pytest.mark.parametrize("folder", ["/etc", "/root", "/home", "/", "relative"])
async def test_a_folder_that_is_none_of_a_program_is_not_shown(talk: Talk, folder: str) -> None:
    with pytest.raises(ConfigurationError):
        async with talk.start("cat", furnishing=Furnishing(shown=(Path(folder),))):
            raise AssertionError("it was started")


async def test_a_daemon_does_not_survive_the_end_of_the_talk(talk: Talk) -> None:
    daemon = f"(setsid sh -c 'exec >/dev/null 2>&1 </dev/null; (sleep {ONE}; :) & :' &); sleep 0.1; echo up; sleep 60"
    async with talk.start("sh", "-c", daemon) as session:
        assert await session.read() == b"up\n"
        assert processes_with(ONE) != []
    assert processes_with(ONE) == []


async def test_cancelling_the_talk_ends_all_of_it(talk: Talk) -> None:
    async def listen() -> None:
        async with talk.start("sh", "-c", f"echo up; sleep {OTHER}") as session:
            await session.read()
            up.set()
            await session.read()

    up = asyncio.Event()
    talking = asyncio.ensure_future(listen())
    await up.wait()
    talking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talking
    assert processes_with(OTHER) == []


async def test_the_time_limit_shows_as_the_end_of_the_output(talk: Talk) -> None:
    async with talk.start("sh", "-c", f"echo up; sleep {THIRD}", limits=replace(LIMITS, wall_seconds=0.5)) as session:
        assert await read_all(session) == b"up\n"
    assert session.stopped == "time"
    assert processes_with(THIRD) == []


async def test_complaints_are_drained_and_the_last_of_them_kept(talk: Talk) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the last >&2; echo done"
    async with talk.start("sh", "-c", script) as session:
        assert await read_all(session) == b"done\n"
    assert session.complaints.endswith(b"the last\n")
    assert len(session.complaints) <= 256 << 10


async def test_output_that_is_not_read_holds_the_program_up(talk: Talk, place: Folder) -> None:
    async with talk.start("sh", "-c", "head -c 8000000 /dev/zero; echo over >over") as session:
        got = await session.read()
        assert not (place.path / "over").exists()
        assert len(got) + len(await read_all(session)) == 8_000_000


async def test_a_killed_program_reports_its_signal(talk: Talk) -> None:
    async with talk.start("sh", "-c", "kill -KILL $$") as session:
        assert await session.read() == b""
        await asyncio.sleep(0)
    assert session.exit_code == 128 + signal.SIGKILL


async def test_talks_leave_no_descriptor_behind(talk: Talk) -> None:
    async with talk.start("true"):
        pass
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted
    for _ in range(3):
        async with talk.start("true"):
            pass
    # What other tests left may be closed between the two counts.
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - counted
