"""The source of a run's baseline for a repetition: its repository, or a mirror of this home."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from gatewright.errors import GatewrightError, GitError, MalformedError
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.mirror import Mirrors, holds

#: The code of the error when it can be had nowhere.
GONE = "baseline_missing"
#: The roles that keep mirrors below a home folder.
_ROLES = ("gatekeeper", "worker", "reviewer", "testrunner")


async def find_baseline(home: Path, url: str, commit: str, access: RepositoryAccess = NO_ACCESS) -> str:
    """Return the address of a repository that has ``commit``: ``url`` itself, or else a mirror of the home folder ``home``.

    A repository whose branch was moved and cleaned up has lost the commit; the roles' mirrors keep every baseline that they
    worked on. Raises MalformedError (``baseline_missing``) with advice.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="gatewright-baseline-") as scratch:
            await (await Mirrors(Path(scratch), access=access).open(url)).ensure(commit)
    except GatewrightError as error:
        for mirror in _mirrors(home):
            if _has(mirror, commit):
                return str(mirror)
        raise MalformedError(missing_baseline_words(url, commit, error.message), code=GONE) from error
    return url


def missing_baseline_words(url: str, commit: str, why: str) -> str:
    """Return the message for a baseline that cannot be found."""
    return (
        f"the run started from commit {commit}, which {url} does not give any more ({why}), and no mirror of this home has it: "
        "name a repository that has it, a clone or a backup, with --repo"
    )


def _mirrors(home: Path) -> Iterator[Path]:
    for role in _ROLES:
        yield from sorted((home / role / "mirrors").glob("*.git"))


def _has(mirror: Path, commit: str) -> bool:
    try:
        return holds(mirror, commit)
    except GitError:
        return False
