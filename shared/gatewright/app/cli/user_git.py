"""Who the user is: the account of this host, and what the user's own git configuration says: name, address, ignored files.

The only place where git reads that configuration. It is asked for values; nothing that it names is started.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import msgspec

from gatewright.app.cli.settings import user_git_environment
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.vocabulary import Person
from gatewright.git.command import executable
from gatewright.git.process import run_to_end


def user_name() -> str:
    """The account that this process belongs to, for records."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def who_orders(start: Path) -> tuple[str, ...]:
    """The person at the command line, by every name that is known here: the account, and git's address in ``start``."""
    known = author(start)
    return (user_name(), known.email) if known is not None else (user_name(),)


def with_orderer(document: RunRequest | TaskContract, start: Path) -> RunRequest | TaskContract:
    """``document`` as the person at the command line orders it, unless it names a person itself."""
    return document if document.ordered_by else msgspec.structs.replace(document, ordered_by=who_orders(start))


def author(start: Path) -> Person | None:
    """Who commits in ``start``, as git would say it: GIT_AUTHOR_*, author.*, user.*; None where a part is missing."""
    environment = user_git_environment()
    found = {
        key: environment.get(f"GIT_AUTHOR_{key.upper()}") or _value(start, f"author.{key}") or _value(start, f"user.{key}")
        for key in ("name", "email")
    }
    return commit_author(found["name"] or "", found["email"] or "")


def excludes(start: Path) -> Path | None:
    """The user's own list of files that git passes over everywhere, if there is one."""
    environment = user_git_environment()
    named = _value(start, "core.excludesFile", "--path")
    folder = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
    file = Path(named or f"{folder}/git/ignore")
    return file if file.is_absolute() and file.is_file() else None


def _value(start: Path, key: str, *options: str) -> str | None:
    asked = (executable("git"), "-C", str(start), "config", "--null", *options, "--get", key)
    finished = run_to_end(asked, user_git_environment(), stdin=None, timeout=30, limit=1 << 16)
    return finished.stdout.decode("utf-8", "replace").rstrip("\0") or None if finished.status == 0 else None
