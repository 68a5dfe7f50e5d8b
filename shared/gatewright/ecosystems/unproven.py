"""Programs that run tests but cannot report them without a change to the contract's command, with an explanation for each.

A program moves from here into a package of its own when its tests can be reported: through a variable that loads a
reporter, or one that makes our program start each test binary.
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
    """Return why the program that ``argv`` starts cannot report its tests; empty for any other program."""
    program = posixpath.basename(argv[0]) if argv else ""
    return _WORDS.get(program, "")
