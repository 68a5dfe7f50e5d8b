"""Programs that run tests and cannot be made to tell them without changing the contract's command: what is said of each.

A program moves from here into a package of its own when its tests can be told: by a variable that brings in a reporter, or one
that has each test binary started by a program of ours.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

_OWN = "what it runs is not read from its settings: name that command instead"
_WORDS = {
    "cmake": "cmake starts ctest by its full path: name it by itself, after the command that builds (ctest --test-dir build)",
    "mvnw": "its wrapper fetches Maven, which needs a network that tests do not have: name mvn",
    "gradlew": "its wrapper fetches Gradle, which needs a network that tests do not have: name gradle",
    "rake": "its tests are not known to be those of minitest or RSpec",
    "tox": _OWN,
    "nox": _OWN,
    "hatch": _OWN,
}


def words_for(argv: Sequence[str]) -> str:
    """Why the program that ``argv`` starts cannot be made to tell its tests; empty when it is none of these."""
    program = posixpath.basename(argv[0]) if argv else ""
    return _WORDS.get(program, "")
