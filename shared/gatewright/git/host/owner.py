"""Landing in a repository of this host as its owner, if Gatewright runs as root and another account owns the repository.

The owner's git can neither change nor remove files that root creates there. So git writes there under the owner's account;
root writes only in its own repositories.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from gatewright.errors import GitError
from gatewright.git.host.local_repository import LocalRepository

NOT_OWN: Final = "target_not_own"
#: The folders that a landing writes.
_WRITTEN: Final = ("objects", "refs", "refs/heads")
_SECONDS: Final = 20


def as_owner(repository: LocalRepository) -> tuple[str, ...]:
    """Return the prefix for a command that writes into ``repository``; empty if this process is not root or root owns it.

    Raises GitError (``target_not_own``) if this host has no setpriv.
    """
    facts = repository.common.stat()
    if os.geteuid() != 0 or facts.st_uid == 0:
        return ()
    program = shutil.which("setpriv")
    if program is None:
        raise _not_own(repository, facts.st_uid, "this host has no setpriv (util-linux) to write there as that account")
    return (program, f"--reuid={facts.st_uid}", f"--regid={facts.st_gid}", "--clear-groups", "--no-new-privs", "--")


def owner_fault(repository: LocalRepository) -> GitError | None:
    """Return why root cannot land in a repository of another account; None if it can. Starts a process: blocks."""
    try:
        words = as_owner(repository)
    except GitError as error:
        return error
    program = shutil.which("test")
    for folder in _WRITTEN if words else ():
        asked = (*words, program or "test", "-w", str(repository.common / folder))
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode:
            message = done.stderr.decode("utf-8", "replace").strip()[:200]
            why = message or f"that account cannot reach or write {repository.common / folder}"
            return _not_own(repository, repository.common.stat().st_uid, why)
    return None


def _not_own(repository: LocalRepository, owner: int, why: str) -> GitError:
    words = f"{repository.common} belongs to the account {owner}, and Gatewright runs as root: {why}"
    return GitError(f"{words}; run Gatewright as that account, or give the repository to root (chown -R)", code=NOT_OWN)
