"""git as it speaks to a server: with the credential of the purpose, bounded in memory and output, in threads of each host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import Purpose
from gatewright.git.access.refusals import refusal
from gatewright.git.command import CommandFailedError, GitCommand, executable
from gatewright.git.refs import Source
from gatewright.host_errors import REPOSITORY_HOST_BUSY
from gatewright.outside_calls import CallLimits, OutsideCalls

#: Bytes of memory for a git that talks to a server: it holds the server's ref advertisement, and single files.
MOST_MEMORY: Final = 4 << 30

#: Keep a fetched pack as one file, so that a file size limit bounds all of it.
_ONE_PACK: Final = {"fetch.unpackLimit": "1"}


def limit_words(*, memory: int = MOST_MEMORY, file: int | None = None) -> tuple[str, ...]:
    """Return a command prefix that limits memory, and the size of each file written, in bytes."""
    return (executable("prlimit"), f"--data={memory}", *(() if file is None else (f"--fsize={file}",)), "--")


@dataclass(frozen=True, slots=True)
class RemoteGit:
    """``git`` of a mirror, and the repository ``source`` of another host."""

    git: GitCommand
    source: Source
    access: RepositoryAccess

    def run(
        self,
        purpose: Purpose,
        *words: str,
        timeout: float,
        limit: int | None = None,
        pass_fds: tuple[int, ...] = (),
        space: int | None = None,
        stdin: bytes | None = None,
    ) -> bytes:
        """Run git; ``space`` bounds the pack that it writes, in bytes.

        Raises:
            GitError: with a code of ``refusals``.
            CommandFailedError: any other failure.
            DeniedError: as ``RepositoryAccess.resolve``.
        """
        access = self.access.resolve(self.source, purpose)
        with access.opened() as (settings, descriptors):
            try:
                return self.git.execute(
                    *words,
                    stdin=stdin,
                    timeout=timeout,
                    limit=limit,
                    pass_fds=(*pass_fds, *descriptors),
                    environment=access.environment,
                    settings={**settings, **_ONE_PACK},
                    confinement=limit_words(file=space),
                )
            except CommandFailedError as error:
                cleaned = error.with_clean_words(access.without_credentials)
        if (refused := refusal(self.source.address, cleaned)) is not None:
            raise refused from cleaned
        raise cleaned


# Calls to git servers of other hosts. Each host has its own threads, so a host that hangs delays only the runs that use it.
# No circuit breaker: the time limits of git end each call, and a repository that does not answer decides its run.

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
