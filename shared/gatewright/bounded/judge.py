"""Evaluation of a pure function of bytes in a child process, which is killed on a timeout or when the caller is cancelled.

A child serves many questions, one at a time, to pay its start only once. A killed child is replaced. No question can block the
interpreter lock or the event loop of the caller, or use up its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import weakref
from dataclasses import dataclass, field

from gatewright.bounded.__main__ import OUT_OF_MEMORY
from gatewright.bounded.frames import read_frame, write_frame
from gatewright.errors import DeniedError, GatewrightError
from gatewright.own_interpreter import loader_variables


class BeyondLimitError(DeniedError):
    """What was to be judged takes more time or memory than a judgement may. Make the change smaller, or raise the limit."""

    code = "judgement_limit"


@dataclass(frozen=True)
class ProcessBounds:
    """Limits of a child. ``seconds``: time for one question. ``memory``: bytes of address space."""

    seconds: float
    memory: int = 4 << 30


@dataclass(frozen=True)
class BoundedJudge:
    """Runs ``function`` (``module:name``) in children. Any number of questions at a time, with one child each."""

    function: str
    bounds: ProcessBounds
    _idle: list[_Child] = field(default_factory=list)

    def prepare(self) -> None:
        """Start a child unless one is idle, so that it imports what it needs while the question is prepared."""
        self._idle[:] = [child for child in self._idle if child.alive]
        if not self._idle:
            self._idle.append(_Child(self.function, self.bounds.memory))

    async def ask(self, question: bytes) -> bytes:
        """Answer a question. When the caller is cancelled, the child is killed immediately.

        Raises:
            BeyondLimitError: the question exceeds the limit of time or memory.
            GatewrightError: ``judgement_failed``, a defect of this package.
        """
        self.prepare()
        child = self._idle.pop()
        asking = asyncio.ensure_future(asyncio.to_thread(child.ask, question))
        try:
            async with asyncio.timeout(self.bounds.seconds):
                answer = await asyncio.shield(asking)
        except TimeoutError:
            raise BeyondLimitError(f"not judged within {self.bounds.seconds:g} s") from None
        finally:
            if not asking.done():
                child.kill()
                with contextlib.suppress(GatewrightError):
                    await asking  # the thread sees the end of the pipe immediately
        self._idle.append(child)
        return answer


class _Child:
    """One child process. It ends with its parent, and when it is no longer referenced."""

    def __init__(self, function: str, memory: int) -> None:
        # Only search paths of modules and libraries: no seed, setting or token is in the child's environment.
        modules = os.pathsep.join(path for path in sys.path if path)
        environment = {"PYTHONPATH": modules, "PYTHONDONTWRITEBYTECODE": "1", **loader_variables()}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gatewright.bounded", function, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
        )
        self._end = weakref.finalize(self, _kill_process, self._process)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: bytes) -> bytes:
        """Answer a question; blocks. Raises BeyondLimitError when memory ran out, else GatewrightError when the child ended."""
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None  # noqa: S101 - both are pipes, see above
        assert answers is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):
            write_frame(questions, question)
        answer = read_frame(answers)
        if answer is not None:
            return answer
        code = self._process.wait()
        self._end()
        if code == OUT_OF_MEMORY or code < 0:  # killed by a signal: the kernel is out of memory, or the parent killed it
            raise BeyondLimitError("not judged within the memory that a judgement may take")
        raise GatewrightError(f"a judgement ended its process with {code}; its words are in the log", code="judgement_failed")

    def kill(self) -> None:
        self._process.kill()


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
