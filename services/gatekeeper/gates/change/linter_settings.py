"""Settings of linters inside a manifest belong to the class of protected paths, whatever opens the rest of the file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gatewright.contracts.vocabulary import Scope
from gatewright.ecosystems.runner.linters import changed_linter_settings, may_set_linters
from gatewright.ecosystems.runner.settings import UNREADABLE, is_manifest
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.scope import AllowedPaths
from gatewright.services.gatekeeper.gates.change.contents import file_pairs, in_portions
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE: Final = "protected_paths.protected"
_CLASS: Final = "protected"
#: Names of parts that are told, of one file.
_MOST_TOLD: Final = 4
#: Manifests of one change that are compared; in each further one every change counts.
_MOST_MANIFESTS: Final = 200


async def judge_linter_settings(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Judge the changes of what linters, type checkers and formatters report. Raises GitError."""
    kind = next(each for each in context.policies.protected.classes if each.name == _CLASS)
    opened = AllowedPaths((context.contract.scope or Scope()).allow_protected_paths)
    pairs = [
        pair
        for pair in file_pairs(changes)
        if may_set_linters(pair.path) and kind not in context.policies.path_classes(pair.path)
    ]
    reasons = {pair.path: "settings of linters may change here" for pair in pairs[_MOST_MANIFESTS:]}
    async for some, contents in in_portions(pairs[:_MOST_MANIFESTS], context.mirror):
        for pair in some:
            old, new = [contents[each] if each else None for each in (pair.old_id, pair.new_id)]
            parts = await asyncio.to_thread(changed_linter_settings, pair.path, old, new)
            if parts and parts[0].startswith(UNREADABLE) and is_manifest(pair.path):
                continue  # refused as a setting of the runner, and opened only by name
            if parts:
                more = f" and {len(parts) - _MOST_TOLD} more" if len(parts) > _MOST_TOLD else ""
                named = ", ".join(display(part[:80].encode("utf-8", "surrogatepass")) for part in parts[:_MOST_TOLD])
                reasons[pair.path] = f"settings of linters change: {named}{more}"
    for path, words in reasons.items():
        if opened.cover(path):
            context.report.touched(RULE, path)
        else:
            context.report.violate("path_protected", RULE, f"{words}; opened only by {kind.opened_by}", path)
