"""What the proof of each framework's tests costs beside the command, and what it does not see: docs/testing.md in two lines.

Words for people, of one contract; nothing is judged by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Holds for all of them.
REMAINS: Final = "code that tells a test run from real use, of which review refuses the forms that it knows"
WHERE_TESTS_CHANGE: Final = "a change of tests, or of what runs them, costs the suite once more, with the baseline's tests"
_SUITE: Final = "the suite once more where the baseline was not tested before"
_BUILD: Final = "one build more; another where the baseline was not tested before"


@dataclass(frozen=True, slots=True)
class ProofCost:
    """``costs``: what is run beside the command; ``remains``: what is weaker than with others, empty for nothing of its own."""

    costs: str
    remains: str = ""


_PYTHON: Final = ProofCost("one collection; another where the baseline was not tested before")
_LOADED: Final = ProofCost(
    f"one run in which every test file is loaded; {_SUITE}", "which copy of the project its own tests import is not always seen"
)
_DRAWN: Final = ProofCost(
    f"one run in which test files are loaded, ten where there are more than twenty; {_SUITE}", _LOADED.remains
)
_BY_EXIT_CODE: Final = ProofCost(_BUILD, "a test is what the exit code of its program says")
_CARGO: Final = ProofCost(_BUILD, "documentation tests are run and not counted; tests inside of sources are the change's own")
_RUBY: Final = ProofCost("one start; a listing where the baseline was not tested before")

#: By the name that the bundle records.
COSTS: Final = {
    "pytest": _PYTHON,
    "unittest": _PYTHON,
    "node:test": ProofCost(_LOADED.costs, "a file without a test counts as one, and what it asserts is not known"),
    "mocha": _LOADED,
    "vitest": _DRAWN,
    "jest": _DRAWN,
    "go test": ProofCost(
        "one build more of what the change touches; another where the baseline was not tested before",
        "subtests are not told one by one",
    ),
    "cargo test": _CARGO,
    "cargo nextest": _CARGO,
    "ctest": _BY_EXIT_CODE,
    "meson test": _BY_EXIT_CODE,
    "maven": ProofCost(f"one build more; {_SUITE}", "reports are files, which other tests of the same run could write"),
    "gradle": ProofCost(f"one build more; {_SUITE}"),
    "minitest": _RUBY,
    "rspec": _RUBY,
    "phpunit": ProofCost(f"one start; {_SUITE}"),
}
