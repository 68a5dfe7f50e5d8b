"""git as it speaks to a server: with the credential of the purpose, bounded in memory and in what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import Purpose
from gatewright.git.access.refusals import refusal
from gatewright.git.command import CommandFailedError, GitCommand, executable
from gatewright.git.refs import Source

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
