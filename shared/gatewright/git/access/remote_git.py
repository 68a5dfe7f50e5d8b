"""git as it speaks to a server: with the credential of the purpose, bounded in memory and in what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import Purpose
from gatewright.git.access.refusals import refusal
from gatewright.git.command import CommandFailedError, GitCommand, executable
from gatewright.git.refs import Source

#: Bytes of memory that git may take while a server has a say in it: it keeps what is told of refs, and single files.
MOST_MEMORY: Final = 4 << 30

#: What comes is kept as the one file that it came as, so that its bound is a bound on all of it.
_ONE_PACK: Final = {"fetch.unpackLimit": "1"}


def limit_words(*, memory: int = MOST_MEMORY, file: int | None = None) -> tuple[str, ...]:
    """Words before a command that bound its memory, and each file that it writes, in bytes."""
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
        room: int | None = None,
        stdin: bytes | None = None,
    ) -> bytes:
        """Run git; ``room`` bounds the pack that it writes, in bytes.

        GitError with a code of ``refusals``, CommandFailedError for what is none, and what ``RepositoryAccess.resolve`` raises.
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
                    walls=limit_words(file=room),
                )
            except CommandFailedError as error:
                cleaned = error.with_clean_words(access.without_credentials)
        if (refused := refusal(self.source.address, cleaned)) is not None:
            raise refused from cleaned
        raise cleaned
