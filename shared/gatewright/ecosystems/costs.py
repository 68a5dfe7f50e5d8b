"""The cost of the proof for each framework beside the command itself, and its gaps: docs/testing.md in two lines.

Text for people, for one contract; no decision uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Holds for all of them.
REMAINS: Final = "code that distinguishes a test run from real use, where its calls cannot be compared"
WHERE_TESTS_CHANGE: Final = "a change of tests, or of what runs them, costs the suite and its new tests once more"
_SUITE: Final = "the suite once more where the baseline was not tested before"
_BUILD: Final = "one build more; another where the baseline was not tested before"


@dataclass(frozen=True, slots=True)
class ProofCost:
    """``costs``: the additional runs; ``remains``: gaps that other frameworks do not have, empty for none."""

    costs: str
    remains: str = ""


#: Of frameworks whose calls are repeated.
_CALLS: Final = "a change of sources costs the suite once more, to record their calls"
_PYTHON: Final = ProofCost(f"one collection; another where the baseline was not tested before; {_CALLS}")
_LOADED: Final = ProofCost(
    f"one run in which every test file is loaded; {_SUITE}; {_CALLS}",
    "which copy of the project its own tests import is not always seen",
)
_DRAWN: Final = ProofCost(
    f"one run in which test files are loaded, ten where there are more than twenty; {_SUITE}; {_CALLS}", _LOADED.remains
)
_BY_EXIT_CODE: Final = ProofCost(_BUILD, "only the exit code of a test program shows its result")
_CARGO: Final = ProofCost(_BUILD, "documentation tests are run and not counted; tests inside of sources are the change's own")
_RUBY: Final = ProofCost("one start; a listing where the baseline was not tested before")

#: By the name that the bundle records.
COSTS: Final = {
    "pytest": _PYTHON,
    "unittest": _PYTHON,
    "node:test": ProofCost(_LOADED.costs, "a file without a test appears as one test, and its assertions are unknown"),
    "mocha": _LOADED,
    "vitest": _DRAWN,
    "jest": _DRAWN,
    "go test": ProofCost(
        "one build more of what the change touches; another where the baseline was not tested before",
        "subtests are not reported one by one",
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
