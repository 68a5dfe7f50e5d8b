"""Hidden acceptance checks: commands and files that the makers of a change never see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatewright.contracts.vocabulary import AcceptanceTest, Artifact
from gatewright.errors import DeniedError
from gatewright.order_artifacts.hidden_acceptance import hidden_files, hidden_path, hidden_tests
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.tasks.provided import MOST_FILES, TOO_LARGE
from gatewright.workspace.planting import refuse_unsafe

RULE: Final = "hidden_acceptance"
INVALID: Final = "hidden_acceptance_invalid"


def judge_hidden(context: GateContext, tests: Sequence[AcceptanceTest], artifacts: Sequence[Artifact]) -> None:
    """Judge the hidden tests and their files.

    1. At least one test is visible.
    2. No hidden test shares its name with a visible one, since reports distinguish them by name. None measures coverage, whose
       result would describe it.
    3. Files exist only for hidden tests, not too many, at legal and distinct paths.

    A hidden file may replace any other file: it never lands and proves nothing for the visible tests.
    """
    hidden, files, report = hidden_tests(tests), hidden_files(artifacts), context.report
    if not hidden and not files:
        return
    report.checked(RULE, f"{len(hidden)} hidden check(s), {len(files)} file(s)")
    if len(hidden) == len(tests):  # 1
        report.violate(INVALID, RULE, "every test is hidden; at least one must be visible to the maker of the change")
    names = {test.name for test in tests if not test.hidden}
    for test in hidden:  # 2
        if test.name in names:
            report.violate(INVALID, RULE, f"{test.name!r} is the name of a visible test, too")
        for field in ("coverage", "audit"):
            if getattr(test, field) is not None:
                report.violate(INVALID, RULE, f"{test.name!r} asks for {field}, which only a visible test may")
    if files and not hidden:  # 3
        report.violate(INVALID, RULE, "there are hidden files, and no hidden test that could use them")
    if len(files) > MOST_FILES:
        report.violate(TOO_LARGE, RULE, f"{len(files)} hidden files, at most {MOST_FILES} are taken")
        return
    paths = [hidden_path(file) for file in files]
    for path in paths:
        try:
            refuse_unsafe(path.encode())
        except DeniedError as error:
            report.violate(error.reason, RULE, error.message)
    if len({path.casefold() for path in paths}) != len(paths):
        report.violate(INVALID, RULE, "two hidden files have the same path")
