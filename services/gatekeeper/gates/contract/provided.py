"""Hidden acceptance checks, and provided files: none of a protected class that the contract does not open.

A provided file never lands. But a provided test configuration decides what tests prove, just as a landed one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatewright import scope
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, Scope
from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirror
from gatewright.git.paths import display
from gatewright.order_artifacts.hidden_acceptance import hidden_files, hidden_path, hidden_tests
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.tasks.provided import MOST_FILES, TOO_LARGE, path_of, provided
from gatewright.workspace.planting import NOT_FREE, refuse_unsafe

RULE = "provided_files"


def judge_provided(context: GateContext, artifacts: Sequence[Artifact], opened: Scope | None) -> None:
    """Judge the provided files.

    1. Not too many.
    2. Paths are legal in a tree.
    3. None is of a protected class, unless the contract opens it by name.
    """
    files = provided(artifacts)
    if not files:
        return
    report = context.report
    report.checked(RULE, ", ".join(path_of(file) for file in files[:MOST_FILES]))
    if len(files) > MOST_FILES:  # 1
        report.violate(TOO_LARGE, RULE, f"{len(files)} files are provided, at most {MOST_FILES} are taken")
    named = scope.AllowedPaths(opened.allow_protected_paths if opened is not None else ())
    for file in files:
        path = path_of(file).encode()
        try:
            refuse_unsafe(path)  # 2
        except DeniedError as error:
            report.violate(error.reason, RULE, error.message)
            continue
        for kind in context.policies.path_classes(path):  # 3
            if kind.opened_by != "scope.allow_protected_paths" or not named.cover(path):
                report.violate("path_protected", f"protected_paths.{kind.name}", f"opened only by {kind.opened_by}", path)


async def judge_tracked(context: GateContext, artifacts: Sequence[Artifact], mirror: Mirror, baseline: str) -> None:
    """Refuse provided files at paths that the baseline tracks."""
    wanted = tuple(path_of(file) for file in provided(artifacts))
    for entry in await mirror.files(baseline, wanted) if wanted else ():
        words = f"{display(entry.path)} is provided, and the baseline tracks it"
        context.report.violate(NOT_FREE, RULE, words, entry.path)


HIDDEN_RULE: Final = "hidden_acceptance"
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
    report.checked(HIDDEN_RULE, f"{len(hidden)} hidden check(s), {len(files)} file(s)")
    if len(hidden) == len(tests):  # 1
        report.violate(INVALID, HIDDEN_RULE, "every test is hidden; at least one must be visible to the maker of the change")
    names = {test.name for test in tests if not test.hidden}
    for test in hidden:  # 2
        if test.name in names:
            report.violate(INVALID, HIDDEN_RULE, f"{test.name!r} is the name of a visible test, too")
        for field in ("coverage", "audit"):
            if getattr(test, field) is not None:
                report.violate(INVALID, HIDDEN_RULE, f"{test.name!r} asks for {field}, which only a visible test may")
    if files and not hidden:  # 3
        report.violate(INVALID, HIDDEN_RULE, "there are hidden files, and no hidden test that could use them")
    if len(files) > MOST_FILES:
        report.violate(TOO_LARGE, HIDDEN_RULE, f"{len(files)} hidden files, at most {MOST_FILES} are taken")
        return
    paths = [hidden_path(file) for file in files]
    for path in paths:
        try:
            refuse_unsafe(path.encode())
        except DeniedError as error:
            report.violate(error.reason, HIDDEN_RULE, error.message)
    if len({path.casefold() for path in paths}) != len(paths):
        report.violate(INVALID, HIDDEN_RULE, "two hidden files have the same path")
