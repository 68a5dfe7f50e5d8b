"""Counts attempts of a box's processes to send beyond its loopback, from the counters of its network in the kernel.

The only route of a box leads to itself: other destinations increment "no route" (RFC 4293, ipSystemStatsOutNoRoutes).
A command cannot reset a counter or make a network of its own. An open file of counters outlives the processes.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from gatewright.sandbox.port import NetworkAttempts

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
