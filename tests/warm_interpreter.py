"""Stacks of tests without the start of an interpreter each: one for the process of the tests has imported all roles.

A stack's fork server, its roles and its command line are still processes of their own. ``warm_interpreter_process.py`` lists
in what they are like others. How a fresh interpreter starts is the subject of tests/stack and of tests/cli, without this.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gatewright.app.stack import launch

ROOT = Path(__file__).resolve().parents[1]
#: Takes the place of the interpreter in ``python -P -m MODULE WORD ...``: hands over what it was started with, and ends as the
#: program does. Of the standard library it loads what is there without an import from a file.
STAND_IN = """#!{python} -IS
import _socket, posix, sys, time
minus_p, minus_m, module, *words = sys.argv[1:]
connection = _socket.socket(_socket.AF_UNIX)
connection.connect({place!r})
text = str.maketrans({{'"': '\\\\"', "\\\\": "\\\\\\\\", **{{number: "\\\\u%04x" % number for number in range(32)}}}})
quoted = lambda value: '"' + value.translate(text) + '"'
environment = {{name.decode(): value.decode() for name, value in posix.environ.items()}}
body = ('{{"module": %s, "words": [%s], "environment": {{%s}}, "directory": %s}}' % (
    quoted(module), ", ".join(map(quoted, words)),
    ", ".join(quoted(name) + ": " + quoted(value) for name, value in environment.items()), quoted(posix.getcwd()),
)).encode()
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
connection.sendmsg([len(body).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
while body:
    body = body[connection.send(body):]
status = int(connection.recv(16) or b"-9")
if status < 0:
    posix.kill(posix.getpid(), -status)
    time.sleep(10)
posix._exit(status)
"""


@cache
def stand_in() -> Path:
    """The program that stands for the interpreter; it lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    program, place = folder / "python", folder / "socket"
    program.write_text(STAND_IN.format(python=Path(sys.executable).resolve(), place=str(place)))
    program.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_interpreter_process", str(program), str(place)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def end() -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
        for path in folder.iterdir():
            if path.is_file() or path.is_socket():
                path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()

    atexit.register(end)
    assert process.stdout.readline() == b"ready\n", "the warm interpreter did not start"
    return program


class _Interpreter:
    """Where a stack's programs look for the interpreter; it is started when the first one does."""

    @property
    def executable(self) -> str:
        return str(stand_in())


@contextlib.contextmanager
def warm_interpreter() -> Iterator[None]:
    """What a supervisor in this process starts within the block comes from the warm interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "sys", _Interpreter())
        yield
