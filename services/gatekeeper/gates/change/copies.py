"""Content copied from elsewhere: from a sacred path it is refused, from outside the contract's paths it is a remark.

A copy is detected in the two trees and in the headers of a patch. Content that also exists at a
path that is not sacred is no secret. Content copied in parts, or rewritten, cannot be detected.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gatewright import scope
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, DIRECTORY, EMPTY_BLOBS, NO_CONTENT, REGULAR
from gatewright.git.patches.files import Reading
from gatewright.git.paths import display
from gatewright.secrets.credential_files import MOST_BYTES, holds_credentials
from gatewright.services.gatekeeper.gates.context import ChangeContext
from gatewright.services.gatekeeper.policies.load import Policies

CODE: Final = "sacred_content"
SACRED_RULE: Final = "protected_paths.sacred"
COPIES_RULE: Final = "copied_content"
_SACRED: Final = "sacred"
#: Maximum number of folders whose sacred files are cached.
_REMEMBERED: Final = 50_000
#: Maximum bytes of a sacred file that is compared without blanks and line ends.
_LARGEST: Final = 256 << 10
#: How much larger a copy with more blanks may be: a factor, and bytes.
_FACTOR, _MORE = 4, 1024


class SacredFile(NamedTuple):
    """A file at a sacred path of a tree."""

    path: bytes
    object_id: str


class SacredFiles:
    """Cache of the sacred files of trees by folder: for a tree similar to an earlier one, few folders are read."""

    def __init__(self) -> None:
        self._judged: OrderedDict[tuple[bytes, str], bool] = OrderedDict()
        self._known: OrderedDict[tuple[str, bytes, str], tuple[SacredFile, ...]] = OrderedDict()

    async def of(self, tree: str, mirror: Mirror, policies: Policies) -> tuple[SacredFile, ...]:
        """Return the sacred files of ``tree`` under ``policies``, including files whose content holds credentials.

        Raises:
            GitError: the mirror cannot be read.
        """
        named = await self._named_files(tree, mirror, policies)
        asked = [file for file in named if policies.content_decides(file.path)]
        unknown = [file for file in asked if _ending(file) not in self._judged]
        if unknown:
            sizes = await mirror.sizes({file.object_id for file in unknown})
            small = {object_id for object_id, size in sizes.items() if size <= MOST_BYTES}
            contents = await mirror.blobs(small) if small else {}
            for file in unknown:
                content = contents.get(file.object_id)
                self._judged[_ending(file)] = content is None or await asyncio.to_thread(holds_credentials, file.path, content)
        cleared = {file for file in asked if not self._judged[_ending(file)]}
        while len(self._judged) > _REMEMBERED:
            self._judged.popitem(last=False)
        return tuple(file for file in named if file not in cleared)

    async def _named_files(self, tree: str, mirror: Mirror, policies: Policies) -> tuple[SacredFile, ...]:
        found: dict[tuple[bytes, str], tuple[SacredFile, ...]] = {}
        below: dict[tuple[bytes, str], list[tuple[bytes, str]]] = {}
        level = [(b"", tree)]
        while level:
            unknown = []
            for folder in level:
                known = self._known.get((policies.sha256, *folder))
                if known is None:
                    unknown.append(folder)
                else:
                    found[folder] = known
            nodes = await mirror.directories({object_id for _, object_id in unknown})
            level = []
            for folder in unknown:
                prefix = folder[0] + b"/" if folder[0] else b""
                entries = nodes[folder[1]]
                files = [(prefix + node.name, node) for node in entries if node.mode != DIRECTORY]
                sacred = (
                    SacredFile(path, node.object_id)
                    for path, node in files
                    if _is_sacred(path, policies) or (policies.content_decides(path) and node.mode in REGULAR)
                )
                found[folder] = tuple(sacred)
                below[folder] = [(prefix + node.name, node.object_id) for node in entries if node.mode == DIRECTORY]
                level += below[folder]
        for folder in reversed(below):
            found[folder] += tuple(file for inner in below[folder] for file in found[inner])
            self._known[policies.sha256, *folder] = found[folder]
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found[b"", tree]


async def judge_copies(
    context: ChangeContext, sacred: SacredFiles, changes: Sequence[TreeChange], baseline: str, reading: Reading | None = None
) -> None:
    """Judge where the content of ``changes`` was copied from.

    1. The patch headers copy nothing from a sacred file.
    2. No new content equals a sacred file.
    3. No new content equals a sacred file apart from line ends and blanks.
    4. Content from outside the contract's paths is a remark.

    Args:
        context: the gate context with its mirror.
        sacred: cache of sacred files.
        changes: the changed paths.
        baseline: tree id before the change.
        reading: the parsed patch, where there is one.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, policies = context.report, context.policies
    report.checked(SACRED_RULE)
    report.checked(COPIES_RULE)
    outside = scope.AllowedPaths(context.contract.allowed_paths)
    known = await sacred.of(baseline, context.mirror, policies)
    paths = {file.path for file in known}
    for file in reading.files if reading is not None else ():
        if file.move and file.old is not None and file.new is not None:
            if file.old in paths:  # 1
                _refuse_copy(context, file.new, file.old)
            elif not outside.cover(file.old):  # 4
                _remark(context, file.new, file.old)
    written = [
        change
        for change in changes
        if change.new_mode not in NO_CONTENT and change.new_id != change.old_id and change.new_id not in EMPTY_BLOBS
    ]
    files = [file for file in known if file.object_id not in EMPTY_BLOBS]
    if files and written:
        await _judge_content(context, files, written, baseline)


async def remark_copies(context: ChangeContext, changes: Sequence[TreeChange], baseline: str, candidate: str) -> None:
    """Add a remark for each new file that equals a file outside the contract's paths (step 4 of ``judge_copies``).

    Raises:
        GitError: the mirror cannot be read.
    """
    context.report.checked(COPIES_RULE)
    added = {change.path for change in changes if change.old_mode == ABSENT and change.new_id not in EMPTY_BLOBS}
    if not added:
        return
    allowed = scope.AllowedPaths(context.contract.allowed_paths)
    for path, source in sorted((await context.mirror.copies(baseline, candidate)).items()):
        if path in added and not allowed.cover(source):
            _remark(context, path, source)


async def _judge_content(
    context: ChangeContext, files: Sequence[SacredFile], written: Sequence[TreeChange], baseline: str
) -> None:
    by_id = {file.object_id: file for file in files}
    found = [(change, by_id[change.new_id]) for change in written if change.new_id in by_id]  # 2
    sizes = await context.mirror.sizes({*by_id, *(change.new_id for change in written)})
    small = [file for file in by_id.values() if sizes[file.object_id] <= _LARGEST]
    largest = max((sizes[file.object_id] for file in small), default=0) * _FACTOR + _MORE
    rest = [change for change in written if small and change.new_id not in by_id and sizes[change.new_id] <= largest]
    if rest:  # 3
        contents = await context.mirror.blobs({*(file.object_id for file in small), *(change.new_id for change in rest)})
        plain = await asyncio.to_thread(lambda: {object_id: _digest_text(content) for object_id, content in contents.items()})
        by_plain = {plain[file.object_id]: file for file in small if plain[file.object_id]}
        found += [(change, by_plain[plain[change.new_id]]) for change in rest if plain[change.new_id] in by_plain]
    if not found:
        return
    secret = await _nowhere_else({file.object_id for _, file in found}, baseline, context)
    for change, file in found:
        if file.object_id in secret:
            _refuse_copy(context, change.path, file.path)


async def _nowhere_else(object_ids: Iterable[str], baseline: str, context: ChangeContext) -> frozenset[str]:
    """Return the ``object_ids`` that exist only at sacred paths of the baseline."""
    wanted = set(object_ids)
    for entry in await context.mirror.files(baseline):
        if entry.object_id in wanted and not _is_sacred(entry.path, context.policies):
            wanted.discard(entry.object_id)
    return frozenset(wanted)


def _ending(file: SacredFile) -> tuple[bytes, str]:
    """Return the cache key of a content judgement: the name and the content."""
    return file.path.rpartition(b"/")[2], file.object_id


def _digest_text(content: bytes) -> bytes:
    """Return a digest of ``content`` without byte order mark, trailing blanks and empty lines; empty when nothing is left."""
    lines = [line for line in map(bytes.rstrip, content.removeprefix(b"\xef\xbb\xbf").split(b"\n")) if line]
    return hashlib.sha256(b"\n".join(lines)).digest() if lines else b""


def _is_sacred(path: bytes, policies: Policies) -> bool:
    return any(kind.name == _SACRED for kind in policies.path_classes(path))


def _refuse_copy(context: ChangeContext, path: bytes, source: bytes) -> None:
    words = f"has content of {display(source)}, which no contract opens"
    context.report.violate(CODE, SACRED_RULE, words, path)


def _remark(context: ChangeContext, path: bytes, source: bytes) -> None:
    words = f"Has content of {display(source)}, which is outside the contract's paths."
    context.report.remark(COPIES_RULE, words, path)
