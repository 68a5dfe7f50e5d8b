"""Files that a publisher provides to commands beside the repository: none of a protected class that the contract does not open.

A provided file never lands. But a provided test configuration decides what tests prove, just as a landed one does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright import scope
from gatewright.contracts.vocabulary import Artifact, Scope
from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirror
from gatewright.git.paths import display
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
