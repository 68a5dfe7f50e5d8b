"""What the user's own git configuration says of the user: name and address for commits, and which files are passed over.

The only place where git reads that configuration. It is asked for values; nothing that it names is started.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from gatewright.app.cli.settings import user_git_environment
from gatewright.contracts.vocabulary import NOT_IN_NAMES, Person
from gatewright.git.command import executable
from gatewright.git.process import run_to_end

_NOT_IN_NAMES = re.compile(f"[{NOT_IN_NAMES}]")  # noqa: TID251 - linear: single characters
_LONGEST_NAME = 200


def author(start: Path) -> Person | None:
    """Who commits in ``start``, as git would say it: GIT_AUTHOR_*, author.*, user.*. None where that is not a whole identity.

    What no commit can hold (line ends, angle brackets) is left out, as git itself does.
    """
    environment = user_git_environment()
    found = {
        key: environment.get(f"GIT_AUTHOR_{key.upper()}") or _value(start, f"author.{key}") or _value(start, f"user.{key}")
        for key in ("name", "email")
    }
    return person(found["name"] or "", found["email"] or "")


def person(name: str, email: str) -> Person | None:
    """The person of that name and address as far as a commit can hold them, else None."""
    fields = {
        "name": " ".join(_NOT_IN_NAMES.sub("", name).split())[:_LONGEST_NAME],
        "email": "".join(_NOT_IN_NAMES.sub("", email).split()),
    }
    try:
        return msgspec.convert(fields, Person)
    except msgspec.ValidationError:
        return None


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
