"""Commands that make starts. It passes variables on."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from gatewright.ecosystems.make.rules import recipe_lines
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import Command, commands_of

_PROGRAMS = frozenset({"make", "gmake"})
_TARGETS = frozenset({"test", "check"})
#: Programs that find their tests in any folder.
_ANYWHERE = frozenset({"ctest", "meson"})


def is_make(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` starts make."""
    return bool(argv) and posixpath.basename(argv[0]) in _PROGRAMS


def target_of_make(argv: Sequence[str]) -> str | None:
    """The target by which ``argv`` has make run tests; None when it starts none such, or another program."""
    return next((word for word in argv[1:] if word in _TARGETS), None) if is_make(argv) else None


async def commands_of_make(argv: Sequence[str], tree: TreeFiles) -> tuple[tuple[str, ...], ...]:
    """Return the commands that ``argv`` makes make start at the top of the tree; empty unless it is ``make test``."""
    if (target := target_of_make(argv)) is None:
        return ()
    lines = await recipe_lines(tree, target)
    return tuple(command.words for line in lines for command in commands_of(line) if _valid_at_top(command))


def _valid_at_top(command: Command) -> bool:
    """Return whether the command runs at the top, or in any folder alike."""
    return not command.folder or command.words[0] in _ANYWHERE
