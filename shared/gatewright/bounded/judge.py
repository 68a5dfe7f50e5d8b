"""Asks a pure function of bytes in a child process, and kills the child when it takes too long or is wanted no more.

A child serves many questions, one at a time, so that its start is paid once; one that was killed is replaced. The interpreter
lock, the event loop and the memory of the process that asks stay its own whatever the question holds.
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
    """``seconds`` for one question; ``memory``: bytes of address space of the child."""

    seconds: float
    memory: int = 4 << 30


@dataclass(frozen=True)
class BoundedJudge:
    """``function``: ``module:name`` of what is asked. Any number of questions at a time, each with a child of its own."""

    function: str
    bounds: ProcessBounds
    _idle: list[_Child] = field(default_factory=list)

    def prepare(self) -> None:
        """Start a child where none is idle: it loads what it needs while the question is being made."""
        self._idle[:] = [child for child in self._idle if child.alive]
        if not self._idle:
            self._idle.append(_Child(self.function, self.bounds.memory))

    async def ask(self, question: bytes) -> bytes:
        """The answer. When the caller is cancelled the child is killed at once.

        Raises BeyondLimitError, and GatewrightError (``judgement_failed``) for a defect of ours.
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
                    await asking  # the thread sees the pipe end, right away
        self._idle.append(child)
        return answer


class _Child:
    """One process. It ends with its parent, and when nothing refers to it any more."""

    def __init__(self, function: str, memory: int) -> None:
        # Where modules and libraries are found, and nothing else: no seed, no setting, no token is in its environment.
        modules = os.pathsep.join(path for path in sys.path if path)
        environment = {"PYTHONPATH": modules, "PYTHONDONTWRITEBYTECODE": "1", **loader_variables()}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gatewright.bounded", function, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
        )
        self._end = weakref.finalize(self, _end, self._process)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: bytes) -> bytes:
        """Blocks. Raises BeyondLimitError when memory was not enough, GatewrightError when it ended otherwise."""
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
        if code == OUT_OF_MEMORY or code < 0:  # a signal: the kernel had no more memory, or we had enough of it
            raise BeyondLimitError("not judged within the memory that a judgement may take")
        raise GatewrightError(f"a judgement ended its process with {code}; its words are in the log", code="judgement_failed")

    def kill(self) -> None:
        self._process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
