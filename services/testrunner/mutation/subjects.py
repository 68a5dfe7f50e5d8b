"""Which files of a change are mutated: sources in a language that the tests are about; no tests, settings or documents."""

from __future__ import annotations

from typing import Final

from gatewright.ecosystems.port import Framework
from gatewright.ecosystems.python.changed_sources import is_apart
from gatewright.ecosystems.runner.names import is_runner_setting, is_test
from gatewright.git.modes import REGULAR
from gatewright.services.testrunner.mutation.grammars import GRAMMARS
from gatewright.syntax_trees import MOST_BYTES, language_of
from gatewright.tasks.inputs import RebuiltCandidate

#: Files, and bytes of all of them; what is beyond is not mutated.
_MOST_FILES: Final = 500
_MOST_IN_ALL: Final = 16 * 1024 * 1024


async def mutable_files(candidate: RebuiltCandidate, framework: Framework) -> dict[str, bytes]:
    """Contents of the changed files that may be mutated, by path. Raises GitError."""
    languages = framework.languages or frozenset(GRAMMARS)
    wanted = {}
    for change in await candidate.mirror.changes(candidate.baseline_tree, candidate.tree):
        if change.new_mode in REGULAR and language_of(change.path) in languages and _is_source(change.path):
            try:
                wanted[change.path.decode()] = change.new_id
            except UnicodeDecodeError:
                continue
    sizes = await candidate.mirror.sizes(wanted.values())
    chosen: dict[str, str] = {}
    total = 0
    for path, object_id in sorted(wanted.items()):
        size = sizes.get(object_id, MOST_BYTES + 1)
        if size <= MOST_BYTES and total + size <= _MOST_IN_ALL and len(chosen) < _MOST_FILES:
            chosen[path] = object_id
            total += size
    contents = await candidate.mirror.blobs(chosen.values())
    return {path: contents[object_id] for path, object_id in chosen.items()}


def _is_source(path: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    if is_test(path) or is_runner_setting(path) or is_apart(path.decode("utf-8", "replace")):
        return False
    return name not in {b"setup.py", b"conf.py"} and not name.endswith(b".pyi")
