"""Files that tools leave in a workspace: left out of the change, counted, and named in the result.

A new file is left out when all of these hold. No tree contains it, so that it can hide nothing from a gate.

1. The baseline does not track it. A file of the baseline is a change like any other.
2. It is outside the contract's scope. A file inside is for the gates and for people.
3. A ``.gitignore`` of the baseline ignores it, or it has the name of a known cache. Additions to a ``.gitignore`` in a change
   have no effect on that change.

A ``.git`` at the top is left out as well: no tree can contain it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.reports import MOST_LEFT_OUT, LeftOut
from gatewright.ecosystems.caches import is_cache
from gatewright.errors import GitError
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR
from gatewright.git.paths import display
from gatewright.path_patterns.ignore_rules import MOST_BYTES, MOST_FILES, NAME, IgnoreRules
from gatewright.services.worker.executors.blocked_file import BLOCKED_FILE

#: Of the artifacts: the files that were left out, one a line.
LEFT_OUT_LOG: Final = "left_out_files"
_GIT: Final = b".git"
_MOST_LISTED: Final = 1_000
_NAMED: Final = 200


@dataclass
class ToolFiles:
    """Decides what is left out of a change, and counts it. ``tracked`` are the paths of the baseline."""

    tracked: frozenset[bytes]
    rules: IgnoreRules
    allowed: scope.AllowedPaths
    count: int = 0
    paths: list[bytes] = field(default_factory=list)

    def leave_out(self, path: bytes) -> bool:
        """Whether the new file at ``path`` is left out; it is counted then."""
        if path != _GIT and (self._is_of_the_change(path) or not self._is_of_a_tool(path)):
            return False
        self.count += 1
        if len(self.paths) < _MOST_LISTED:
            self.paths.append(path)
        return True

    def anew(self) -> ToolFiles:
        """The same rules, with nothing counted yet."""
        return ToolFiles(self.tracked, self.rules, self.allowed)

    @property
    def left_out(self) -> LeftOut | None:
        """What the result reports of them; None for none."""
        named = tuple(display(path)[:_NAMED] for path in self.paths[:MOST_LEFT_OUT])
        return LeftOut(files=self.count, paths=named) if self.count else None

    @property
    def log(self) -> bytes:
        """All of them, as far as they are listed, one a line."""
        listed = "".join(f"{display(path)}\n" for path in self.paths)
        beyond = self.count - len(self.paths)
        return (listed + (f"and {beyond} more\n" if beyond else "")).encode()

    def _is_of_the_change(self, path: bytes) -> bool:
        asks = path == BLOCKED_FILE or path.startswith(BLOCKED_FILE + b"/")
        return asks or path in self.tracked or self.allowed.holds(path)

    def _is_of_a_tool(self, path: bytes) -> bool:
        return is_cache(path.decode("utf-8", "replace")) or self.rules.ignore(path)


async def tool_files(mirror: Mirror, baseline: str, contract: TaskContract) -> ToolFiles:
    """What is left out of a change of ``baseline`` (a commit) under ``contract``. Raises GitError."""
    entries = await mirror.files(await mirror.tree_of(baseline))
    found = [entry for entry in entries if entry.path.rpartition(b"/")[2] == NAME and entry.mode in REGULAR]
    files = {entry.path.rpartition(b"/")[0]: entry.object_id for entry in found[:MOST_FILES]}
    try:
        contents = await mirror.blobs(set(files.values()), MOST_BYTES) if files else {}
    except GitError:
        contents = {}  # so much that it cannot be judged ignores nothing
    rules = IgnoreRules({folder: contents[name] for folder, name in files.items() if name in contents})
    return ToolFiles(frozenset(entry.path for entry in entries), rules, scope.AllowedPaths(contract.allowed_paths))
