"""The child process: answers one question after the other from standard input until that is closed.

    python -m gatewright.bounded MODULE:FUNCTION BYTES

FUNCTION takes bytes and returns bytes. Any exception ends the process; the caller starts another one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
from importlib import import_module

from gatewright.bounded.frames import read_frame, write_frame

#: Exit code of a child that exceeded its memory limit.
OUT_OF_MEMORY = 3
_PR_SET_PDEATHSIG = 1


def main(function: str, memory: int) -> int:
    """Serve ``function`` within ``memory`` bytes; return the exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    module, _, name = function.partition(":")
    # Nothing that was imported is garbage.
    gc.disable()
    judge = getattr(import_module(module), name)
    gc.freeze()
    gc.enable()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray output is no answer
    try:
        while (question := read_frame(sys.stdin.buffer)) is not None:
            write_frame(answers, judge(question))
    except MemoryError:
        return OUT_OF_MEMORY
    except BrokenPipeError:
        return 0  # the parent is gone
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2])))
