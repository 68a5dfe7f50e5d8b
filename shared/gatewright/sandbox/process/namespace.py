"""A PID namespace made by bubblewrap, which can be killed as a whole.

Process 1 of the namespace is the handle: when it dies the kernel kills all others, including daemons and double forks, and
lets it end only after them. It is the only child of bubblewrap's own process. Bubblewrap could report its number
(``--info-fd``), but writing that without a reader would kill it halfway through the set-up, and leave a process that waits
for ever; so it is searched for instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from gatewright.sandbox.port import NetworkAttempts
from gatewright.sandbox.process.start_barrier import readable

_PAUSE_SECONDS: Final = 0.001
#: Far more than process 1 needs to get from its birth to its wait, even on a busy host.
_TRIES: Final = 2000
#: The state letters of a process that is stopped, or has ended, as proc(5) has them.
_STANDING_STILL: Final = "TtZX"


class Namespace:
    """The processes that ``process``, a bubblewrap with its own PID namespace, has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._first: int | None = None
        self._number = 0
        self._counters: NetworkCounters | None = None

    def close(self) -> None:
        """Give the descriptors back."""
        if self._counters is not None:
            self._counters.close()
        if self._first is not None:
            os.close(self._first)

    def attempts(self) -> NetworkAttempts | None:
        """What its processes tried to send beyond the loopback of their network."""
        return self._counters.read() if self._counters is not None else None

    async def grasp(self, pid: int) -> None:
        """Open process 1, and check that it has asked to die with its parent. Does nothing if it has ended."""
        self._counters = NetworkCounters(pid)
        if not self._find():
            return
        with contextlib.suppress(OSError):
            for _ in range(_TRIES):
                # It asks just before it waits for its children, where it sleeps.
                if state(self._number)[0] == "S":
                    return
                await asyncio.sleep(_PAUSE_SECONDS)

    def members(self) -> list[int]:
        """Process 1 and all below it: a process that loses its parent becomes its child."""
        return descendants(self._number) if self._first is not None else []

    async def end(self) -> None:
        """Kill process 1 and wait until the kernel has ended all of the namespace."""
        if self._first is None:
            await self._stop()
            self._find()
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            await readable(self._first)
            _reap(self._number)
        self._process.kill()

    async def _stop(self) -> None:
        """Return when bubblewrap's own process is stopped: only then it cannot have an unseen child.

        The signal alone does not ensure it: a fork in progress on another processor finishes first.
        """
        with contextlib.suppress(OSError):
            os.kill(self._process.pid, signal.SIGSTOP)
            for _ in range(_TRIES):
                if state(self._process.pid)[0] in _STANDING_STILL:
                    return
                await asyncio.sleep(_PAUSE_SECONDS)

    def _find(self) -> bool:
        for number in children(self._process.pid):
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(number)
                # Its parent has not reaped it, or it would not be its child: the number and the descriptor are the same one's.
                if state(number)[1] == self._process.pid:
                    self._first, self._number = descriptor, number
                    return True
                os.close(descriptor)
        return False


def _reap(number: int) -> None:
    """An orphan is our child when we are the process that adopts orphans here, as the first process of a container is."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(number, os.WNOHANG)


# Process ancestry, as /proc shows it now.
def children(pid: int) -> list[int]:
    """The children of process ``pid``; none when it has ended."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found.extend(int(child) for child in (thread / "children").read_bytes().split())
    except OSError:
        pass  # it ended while we looked
    return found


def descendants(pid: int) -> list[int]:
    """``pid`` and all processes below it; those that end meanwhile are left out."""
    found = [pid]
    for parent in found:
        found.extend(children(parent))
    return found


def state(pid: int) -> tuple[str, int]:
    """The state letter of process ``pid`` and its parent's number. Raises OSError when it has ended."""
    # The name before them is in parentheses and may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[0].decode("ascii"), int(fields[1])


# Counts attempts of a box's processes to send beyond its loopback, from the counters of its network in the kernel.
# The only route of a box leads to itself: other destinations increment "no route" (RFC 4293, ipSystemStatsOutNoRoutes). A
# command cannot reset a counter or make a network of its own. An open file of counters outlives the processes.

#: Longer than both files; the kernel composes them at each read.
_MOST_BYTES: Final = 1 << 16


class NetworkCounters:
    """The counters of the network of process ``pid``, from now on. Without IPv6 in the kernel, its count stays 0."""

    def __init__(self, pid: int) -> None:
        self._files: dict[str, int] = {}
        for name in ("snmp", "snmp6"):
            with contextlib.suppress(OSError):
                self._files[name] = os.open(f"/proc/{pid}/net/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> NetworkAttempts | None:
        """The counts, even after all processes have ended; None if they were not readable at the start."""
        if "snmp" not in self._files:
            return None
        text = {name: os.pread(file, _MOST_BYTES, 0).decode("ascii") for name, file in self._files.items()}
        # Two lines for each protocol: names, then values.
        names, values = (line.split() for line in text["snmp"].splitlines() if line.startswith("Ip:"))
        six = dict(line.split() for line in text.get("snmp6", "").splitlines())
        return NetworkAttempts(int(dict(zip(names, values, strict=True))["OutNoRoutes"]), int(six.get("Ip6OutNoRoutes", 0)))

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._files.values():
            os.close(file)
