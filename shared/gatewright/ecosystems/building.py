"""Commands that build what later commands test; they are repeated in every workspace that runs a later command. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

_BUILDS = frozenset({"cmake", "ninja"})
#: Programs that do more than building, with the build subcommands.
_SOMETIMES = {
    "meson": frozenset({"setup", "compile"}),
    "cargo": frozenset({"build", "b"}),
    "go": frozenset({"build", "generate"}),
    "python": frozenset({"setup.py"}),
}


def builds(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` may produce files that tests need."""
    program = posixpath.basename(argv[0]) if argv else ""
    words = list(argv[1:])
    if program == "npm":
        return words[:1] == ["run"] and any("build" in word or "compile" in word for word in words[1:])
    return program in _BUILDS or bool(_SOMETIMES.get(program, frozenset()).intersection(words[:1]))
