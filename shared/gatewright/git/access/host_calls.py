"""Calls to git servers of other hosts. Each host has its own threads, so a host that hangs delays only the runs that use it.

No circuit breaker: the time limits of git end each call, and a repository that does not answer decides its run.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from gatewright.errors import GitError
from gatewright.git.refs import Source
from gatewright.host_errors import REPOSITORY_HOST_BUSY
from gatewright.outside_calls import CallLimits, OutsideCalls

#: Concurrent calls to one host: fewer than half of the inputs that a gatekeeper handles concurrently, so that two hanging
#: hosts leave capacity for others.
LIMITS: Final = CallLimits(places=6, patience=5.0)


class HostCalls:
    """The calls to each host, kept while any of its repositories is in use. For one event loop."""

    def __init__(self, limits: CallLimits = LIMITS) -> None:
        self._limits = limits
        self._hosts: WeakValueDictionary[str, OutsideCalls] = WeakValueDictionary()

    def of(self, source: Source) -> OutsideCalls | None:
        """Calls to the host of ``source``; None for a repository on this host."""
        if source.local:
            return None
        host = host_of(source)
        calls = self._hosts.get(host)
        if calls is None:
            calls = self._hosts[host] = OutsideCalls(f"the git server {host}", self._limits, _busy, lambda _: False)
        return calls


def host_of(source: Source) -> str:
    """Host and port of a repository on another host, in lower case."""
    if "://" not in source.address:
        return source.address.partition(":")[0].rpartition("@")[2].lower()
    return urlsplit(source.address).netloc.rpartition("@")[2].lower()


def _busy(words: str) -> GitError:
    return GitError(words, code=REPOSITORY_HOST_BUSY)
