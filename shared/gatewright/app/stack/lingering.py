"""A stack that stays for a while after the run that started it, so that the next run need not start one.

A separate process holds it (``gatewright up --linger MINUTES``), which ``gatewright run`` starts at a terminal. The states:

    absent ----> starting ----> in use <----> idle ----> ending ----> absent
       a run starts it |           |  a command   |         ^
                       |           |  comes, goes |         |  the minutes are over, too much memory, `gatewright down`,
                       |           |              +---------+  or a run with another fingerprint comes
                       +-----------+--------------+----> absent    the process dies: the kernel ends what it started

- *Starting* holds ``stack.lock``: of two runs that start one concurrently, one wins, and the other uses it.
- *In use* is a shared lock on ``stack.use`` that each command holds while it uses the stack. The kernel releases it with
    the
  command, also after ``kill -9``.
- *Ending* needs that lock exclusively: no command loses a stack in use, and none begins to use one that ends.
- The *fingerprint* covers all that the processes have read once: program, policies, settings, keys. A stack of another
  fingerprint is ended when idle, and awaited while in use. Environments are not part of it: they can be added.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gatewright.app.stack.processes import descendants, identity, kill
from gatewright.app.stack.state import StackState, read
from gatewright.app.stack.supervisor import StackOptions
from gatewright.errors import UnavailableError
from gatewright.file_locks import lock_file
from gatewright.resources import policy_directory
from gatewright.version import __version__

USE_FILE: Final = "stack.use"
#: Default minutes that a stack stays idle, and the memory that its processes may use meanwhile.
MINUTES: Final = 10.0
MOST_BYTES: Final = 1 << 30
#: Seconds between two checks of use; seconds until an ending stack must be gone.
_LOOK: Final = 1.0
_END_SECONDS: Final = 20.0
_PAUSE: Final = 0.02
#: Seconds for which another process may hold the lock to check whether a stack is in use.
_MOMENT: Final = 0.5
#: Variables that do not affect the behaviour of a stack: its location, and how long it stays.
_NO_SETTING: Final = frozenset({"GATEWRIGHT_HOME", "GATEWRIGHT_LINGER_MINUTES"})
_FOLDERS: Final = ("GATEWRIGHT_POLICIES", "GATEWRIGHT_PROMPTS")
_PACKAGE: Final = Path(__file__).resolve().parents[2]


def fingerprint(options: StackOptions) -> str:
    """Return a digest of all that a stack of these options reads once; equal digests mean equal behaviour. Reads files:
    blocks."""
    digest = hashlib.sha256(f"{__version__}\n{options.home}\n".encode())
    settings: dict[str, Mapping[str, str]] = {
        "all": {name: value for name, value in options.base_environment.items() if name not in _NO_SETTING},
        "models": options.model_keys,
        "puller": options.puller or {},
        **options.repository_keys,
    }
    for owner, variables in sorted(settings.items()):
        for name, value in sorted(variables.items()):
            digest.update(f"{owner}\0{name}\0{value}\0".encode("utf-8", "surrogateescape"))
    named = [options.base_environment.get(name, "") for name in _FOLDERS]
    for folder in (Path(named[0]) if named[0] else policy_directory(), *(Path(each) for each in named[1:] if each)):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(f"{path}\0".encode("utf-8", "surrogateescape") + hashlib.sha256(path.read_bytes()).digest())
    for line in sorted(_program_files(_PACKAGE)):
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _program_files(folder: Path) -> Iterator[str]:
    """Name, size and time of each module: an upgrade changes them, and so does an edit of a checkout."""
    waiting, seen = [os.path.realpath(folder), os.path.realpath(folder / "services")], set[str]()
    while waiting:
        if (here := waiting.pop()) in seen:
            continue
        seen.add(here)
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    facts = entry.stat()
                    yield f"{entry.path}\0{facts.st_size}\0{facts.st_mtime_ns}\n"
                elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    waiting.append(entry.path)


@contextlib.contextmanager
def in_use(home: Path) -> Iterator[None]:
    """While this lasts, the stack of ``home`` does not end for being idle. UnavailableError where it ends just now."""
    try:
        held = lock_file(home / USE_FILE, shared=True, seconds=_END_SECONDS)
    except BlockingIOError:
        raise UnavailableError(
            f"the stack of {home} ends, and has not ended yet: run the command again", code="no_stack"
        ) from None
    try:
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def unused(home: Path, seconds: float = _MOMENT) -> Iterator[bool]:
    """Yield whether no command uses the stack of ``home``; if so, none can begin to during the block. Blocks for at most
    ``seconds``."""
    try:
        held = lock_file(home / USE_FILE, seconds=seconds)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        os.close(held)


async def until_idle(home: Path, minutes: float) -> contextlib.ExitStack:
    """Wait until no command has used the stack for so long, or its idle processes use too much memory.

    The returned stack holds the lock against new commands: close it when the Gatewright stack is gone.
    """
    last_used = time.monotonic()
    while True:
        too_large = await asyncio.to_thread(memory, os.getpid()) > MOST_BYTES
        with contextlib.ExitStack() as held:
            if not held.enter_context(unused(home, 0.0)):
                last_used = time.monotonic()
            elif too_large or time.monotonic() - last_used >= minutes * 60:
                return held.pop_all()
        await asyncio.sleep(min(_LOOK, minutes * 60))


def memory(pid: int) -> int:
    """Bytes that the process ``pid`` and all below it take, what they share counted once."""
    return sum(_bytes_of(each) for each in (pid, *descendants(pid)))


def _bytes_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def ended_for(home: Path, options: StackOptions) -> bool:
    """End the lingering stack of ``home`` if it does not fit ``options`` and no command uses it. Blocks.

    Returns False if a command uses it: it ends later. True if none blocks the start.
    """
    running = read(home)
    if running is None or fits(running, options):
        return True
    with unused(home) as free:
        if not free:
            return False
        end(running)
    return True


def make_way(home: Path) -> None:
    """End a stack that lingers in ``home``. Raises UnavailableError (``home_in_use``) where a command uses it. Blocks."""
    running = read(home)
    if running is None or not running.linger:
        return
    with unused(home) as free:
        if not free:
            words = (
                f"a command uses the stack that lingers in {home} (process {running.pid}): wait for it, or `gatewright down`"
            )
            raise UnavailableError(words, code="home_in_use")
        end(running)


def is_kept(home: Path) -> bool:
    """Return whether a stack runs in ``home`` that ``make_way`` does not end."""
    running = read(home)
    if running is None or not running.linger:
        return running is not None
    with unused(home) as free:
        return not free


def fits(running: StackState, options: StackOptions) -> bool:
    """Return whether a run of these options may use the stack; one started by a person (``gatewright up``) always fits."""
    if not running.linger:
        return running.shared
    return running.workers >= options.workers and running.fingerprint == fingerprint(options)


def end(running: StackState) -> None:
    """Have the process of a stack stop it, and wait for its end. UnavailableError (``not_stopped``) if it hangs."""
    kill(running.pid, signal.SIGTERM)
    give_up = time.monotonic() + _END_SECONDS
    while identity(running.pid) == (running.boot, running.started):
        if time.monotonic() > give_up:
            # Its processes die with it: that is how they were started.
            kill(running.pid)
            raise UnavailableError(f"process {running.pid} did not stop and was killed", code="not_stopped")
        time.sleep(_PAUSE)
