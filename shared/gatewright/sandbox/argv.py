"""Parsing of a contract's command line into an argv, without a shell.

A command is untrusted, and a person may have to approve it before it runs, so it must mean exactly what it looks like. No
shell ever sees it: ``shlex`` splits it, and everything with a meaning for shells is refused rather than taken literally.
The allowlist, not this module, decides whether the program may run.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Final

from gatewright.errors import CommandRefusedError

#: Longest command line, in characters; real ones are far shorter, and the kernel refuses words above 128 KiB.
MAX_CHARACTERS: Final = 16_384

#: Refused everywhere, inside quotes too: a person who reads the command must not have to judge the quoting. Globs, braces,
#: parentheses, ``#``, ``~`` and ``!`` are literal here: nothing expands them, so they are allowed.
_META: Final = frozenset(";&|<>`$")

#: Control, format (bidirectional overrides, zero width), line and paragraph separators, surrogates: what a reader does not see.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def parse_command(text: str) -> tuple[str, ...]:
    """Return the words of ``text`` as ``shlex.split`` in POSIX mode; at least one.

    Raises CommandRefusedError for an empty or overlong line, shell metacharacters ``; & | < > ` $`` and line breaks even
    inside quotes, invisible characters, unbalanced quotes, an assignment (``NAME=value``) or an option in place of the
    program (specification 8, mechanism 3).
    """
    if len(text) > MAX_CHARACTERS:
        raise CommandRefusedError(f"the command has {len(text)} characters, at most {MAX_CHARACTERS} are taken")
    for character in text:
        if character in _META:
            raise CommandRefusedError(f"the command has the shell metacharacter {character!r}; there is no shell")
        if unicodedata.category(character) in _UNSEEN:
            raise CommandRefusedError(f"the command has the unprintable character {character!r}")
    try:
        words = shlex.split(text, posix=True)
    except ValueError as error:
        raise CommandRefusedError(f"the command cannot be split into words: {error}") from error
    check_argv(words)
    return tuple(words)


def check_argv(argv: Sequence[str]) -> None:
    """Raise CommandRefusedError for what cannot be a command: no program, NUL bytes, an option or assignment as program."""
    if not argv or not argv[0]:
        raise CommandRefusedError("the command is empty")
    if any("\0" in word for word in argv):
        raise CommandRefusedError("the command has a NUL byte")
    if argv[0].startswith("-"):
        raise CommandRefusedError(f"the command begins with an option, not with a program: {argv[0]!r}")
    if _ASSIGNMENT.match(argv[0]):
        raise CommandRefusedError(f"the command begins with an assignment, not with a program: {argv[0]!r}")
