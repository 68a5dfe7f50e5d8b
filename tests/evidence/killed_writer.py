"""A program that writes a bundle again and again, each time in a process of its own that SIGKILL ends at the next fsync.

Arguments: a folder, a private key. Below the folder come ``<n>-before`` and ``<n>-after``: what is left when the process is
killed before, or right after, its n-th flush to the disk. Prints how many flushes a whole bundle takes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gatewright.evidence import disk
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import RecordedRun, make_failed


def write(root: Path, recorded: RecordedRun, signer: Signer) -> None:
    """As a gatekeeper does: the events step by step, then the whole."""

    async def steps() -> None:
        writer = BundleWriter(root)
        for transition in recorded.transitions:
            await writer.append(recorded.run, transition.events)
        await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)

    asyncio.run(steps())


def deadly(flush: Callable[[int], object], left: list[int], *, after: bool) -> Callable[[int], object]:
    """``flush``, but the process is gone at the call that ``left`` counts down to."""

    def flushed(descriptor: int) -> object:
        left[0] -= 1
        if not left[0] and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = flush(descriptor)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return flushed


def killed_at(number: int, root: Path, recorded: RecordedRun, signer: Signer, *, after: bool) -> bool:
    """Whether the process was killed; False when it was done with fewer flushes."""
    child = os.fork()
    if child == 0:
        left = [number]
        os.fsync = deadly(os.fsync, left, after=after)  # type: ignore[assignment]  # a function for a function
        disk._syncfs = deadly(disk._syncfs, left, after=after) if disk._syncfs else None
        write(root, recorded, signer)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main() -> None:
    folder, recorded, signer = Path(sys.argv[1]), make_failed(), Signer(keys.load(Path(sys.argv[2])))
    for number in range(1, 1000):
        before = killed_at(number, folder / f"{number}-before", recorded, signer, after=False)
        killed_at(number, folder / f"{number}-after", recorded, signer, after=True)
        if not before:
            print(number - 1)  # noqa: T201 - the answer
            return


if __name__ == "__main__":
    main()
