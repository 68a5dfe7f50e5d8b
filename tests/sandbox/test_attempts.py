"""Attempts to reach the network are counted by the kernel, and nothing inside a box counts as one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.port import NetworkAttempts
from gatewright.sandbox.process.namespace import NetworkCounters
from tests.sandbox.places import Folder, Run
from tests.sandbox.test_session import Talk, read_all

_SET_UP = "import contextlib, socket\nT, U = socket.SOCK_STREAM, socket.SOCK_DGRAM\n"
_ATTEMPT = "with contextlib.suppress(OSError): "
_CONNECT = f"for _ in range({{}}):\n {_ATTEMPT}socket.socket(socket.AF_INET, T).connect(('198.51.100.7', 443))"

_OUTSIDE = {
    "a connection": (_CONNECT.format(1), (1, 0)),
    "many connections": (_CONNECT.format(3000), (3000, 0)),
    "a datagram": (f"{_ATTEMPT}socket.socket(socket.AF_INET, U).sendto(b'.', ('198.51.100.7', 53))", (1, 0)),
    "a multicast": (f"{_ATTEMPT}socket.socket(socket.AF_INET, U).sendto(b'.', ('224.0.0.251', 5353))", (1, 0)),
    "IPv6": (f"{_ATTEMPT}socket.socket(socket.AF_INET6, T).connect(('2001:db8::7', 443))", (0, 1)),
    "an IPv6 datagram": (f"{_ATTEMPT}socket.socket(socket.AF_INET6, U).sendto(b'.', ('2001:db8::7', 53))", (0, 1)),
    "IPv4 within IPv6": (f"{_ATTEMPT}socket.socket(socket.AF_INET6, T).connect(('::ffff:198.51.100.7', 443))", (1, 0)),
    "the name of a host": (f"{_ATTEMPT}socket.getaddrinfo('example.com', 443)", (1, 0)),
    "the host of an address": (f"{_ATTEMPT}socket.gethostbyaddr('198.51.100.7')", (1, 0)),
}
_INSIDE = {
    "nothing": "print('quiet')",
    "a server of its own": (
        "for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n"
        " server = socket.create_server((host, 0), family=family)\n"
        " socket.create_connection(server.getsockname()[:2]).sendall(b'hello')"
    ),
    "a closed port": f"{_ATTEMPT}socket.create_connection(('127.0.0.1', 1))",
    "a datagram to no one": "socket.socket(socket.AF_INET, U).sendto(b'.', ('127.0.0.1', 8125))",
    "its own names": "print(socket.getfqdn(), socket.getaddrinfo('localhost', 80), socket.getaddrinfo('sandbox', 80))",
}


@pytest.mark.parametrize(("code", "counted"), _OUTSIDE.values(), ids=_OUTSIDE)
async def test_every_way_out_is_counted(code: str, counted: tuple[int, int], run: Run, python: Path) -> None:
    completed = await run("python", "-c", _SET_UP + code, prefix=python)
    assert (completed.exit_code, completed.attempts) == (0, NetworkAttempts(*counted)), completed.stderr


@pytest.mark.parametrize("code", _INSIDE.values(), ids=_INSIDE)
async def test_what_stays_inside_is_no_attempt(code: str, run: Run, python: Path) -> None:
    completed = await run("python", "-c", _SET_UP + code, prefix=python)
    assert (completed.exit_code, completed.attempts) == (0, NetworkAttempts(0, 0)), completed.stderr


async def test_another_network_cannot_hide_an_attempt(run: Run, python: Path) -> None:
    hidden = await run("unshare", "-rn", "python", "-c", _SET_UP + _CONNECT.format(1), prefix=python)
    assert (hidden.exit_code, hidden.attempts) == (1, NetworkAttempts(0, 0))
    assert b"unshare" in hidden.stderr


async def test_a_process_left_behind_is_counted(run: Run, python: Path) -> None:
    code = f"import os\n{_SET_UP}if os.fork():\n os.wait()\nelse:\n os.setsid()\n if os.fork():\n  os._exit(0)\n"
    completed = await run("python", "-c", code + _CONNECT.format(2), prefix=python)
    assert completed.attempts is not None
    assert 2 <= completed.attempts.ipv4 <= 4


async def test_commands_at_once_do_not_share_counts(run: Run, python: Path) -> None:
    loud, quiet = await asyncio.gather(run("python", "-c", _SET_UP + _CONNECT.format(5), prefix=python), run("sleep", "0.5"))
    assert (loud.attempts, quiet.attempts) == (NetworkAttempts(5, 0), NetworkAttempts(0, 0))


async def test_a_killed_command_is_counted_too(run: Run, python: Path) -> None:
    code = f"import os, signal\n{_SET_UP}{_CONNECT.format(1)}\nos.kill(os.getpid(), signal.SIGKILL)"
    completed = await run("python", "-c", code, prefix=python)
    assert (completed.exit_code, completed.attempts) == (137, NetworkAttempts(1, 0))


async def test_a_program_that_is_talked_to_is_counted(sandbox: BubblewrapSandbox, place: Folder, python: Path) -> None:
    async with Talk(sandbox, place).start("python", "-c", _SET_UP + _CONNECT.format(2), prefix=python) as session:
        await read_all(session)
    assert session.attempts == NetworkAttempts(2, 0)


def test_a_process_that_is_gone_has_no_counts() -> None:
    counters = NetworkCounters(os.getpid() + (1 << 23))
    assert counters.read() is None
    counters.close()
