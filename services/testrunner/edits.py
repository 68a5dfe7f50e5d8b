"""Edits by commands to the candidate's own files: a note for people, and rewritten tests.

The judged tree lands, independent of the workspace. But tests that were changed before they ran prove nothing about those that
land.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.contracts.reports import TestCommand
from gatewright.errors import DeniedError
from gatewright.git.modes import SUBMODULE
from gatewright.git.paths import display
from gatewright.services.testrunner.comparison import with_rewritten
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace

#: Paths that the note lists.
_MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Edits:
    """``paths`` were written, deleted or created; ``note`` lists those that the candidate has, or has a ``fault``."""

    paths: frozenset[bytes]
    note: bytes
    fault: str = ""

    def in_proofs(self, commands: Sequence[TestCommand], files: Mapping[int, frozenset[str]]) -> list[TestCommand]:
        """``commands`` with what was rewritten of the ``files`` that each of them (by its number) needed to test."""
        changed = [path.decode("utf-8", "replace") for path in self.paths]
        updated = []
        for number, command in enumerate(commands):
            proof = command.proof
            if proof is None or not files.get(number):
                updated.append(command)
                continue
            proof = with_rewritten(proof, files[number], changed)
            if self.fault and not proof.unproven:
                proof = replace(proof, unproven=f"the edits during the run are unknown: {self.fault}")
            updated.append(replace(command, proof=proof))
        return updated


async def find_edits(candidate: RebuiltCandidate, workspace: Workspace) -> Edits:
    """After the last command. Raises GitError."""
    try:
        changed = frozenset(change.path for change in await workspace.changes())
    except DeniedError as error:
        fault = f"{error.reason}: {error.message}"
        return Edits(frozenset(), f"{fault}\n".encode(), fault)
    entries = await candidate.mirror.files(candidate.tree) if changed else ()
    submodules = tuple(entry.path + b"/" for entry in entries if entry.mode == SUBMODULE)
    own = {entry.path for entry in entries}
    edited = sorted(path for path in changed if path in own or (path.startswith(submodules) and workspace.had(path)))
    return Edits(changed, "".join(f"{display(path)}\n" for path in edited[:_MAX_LISTED]).encode())
