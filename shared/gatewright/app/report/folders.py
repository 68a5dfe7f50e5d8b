"""Thousands of changed files as a few lines: summed by folder, as deep as few enough of them allow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright.app.report.patch import FilePatch

#: Folders that a page lists; more are summed as the rest.
MOST_FOLDERS = 40
_DEEPEST = 8
#: So few folders tell nothing of where thousands of files lie.
_TOO_FEW = 4


@dataclass(frozen=True, slots=True)
class Folder:
    """``path`` ends in ``/``, and is empty for files at the top; lines are those of the files that were read."""

    path: bytes
    files: int
    added: int
    removed: int


def sum_folders(files: Iterable[FilePatch], names: Iterable[bytes]) -> tuple[Folder, ...]:
    """The folders of all ``names``, most files first, with the lines of those ``files`` that are known."""
    counts = {file.path: (file.added, file.removed) for file in files}
    paths = sorted({*names, *counts})
    chosen = _group_paths(paths, 1)
    for depth in range(2, _DEEPEST + 1):
        deeper = _group_paths(paths, depth)
        if len(deeper) > MOST_FOLDERS:
            # Many beside one another say more than the one that they all lie in.
            chosen = deeper if len(chosen) < _TOO_FEW else chosen
            break
        if len(deeper) > len(chosen):
            chosen = deeper
    folders = [_folder(folder, inside, counts) for folder, inside in chosen.items()]
    folders.sort(key=lambda each: (-each.files, each.path))
    return tuple(folders)


def _group_paths(paths: Iterable[bytes], depth: int) -> dict[bytes, list[bytes]]:
    groups: dict[bytes, list[bytes]] = {}
    for path in paths:
        parts = path.split(b"/")[:-1][:depth]
        groups.setdefault(b"".join(part + b"/" for part in parts), []).append(path)
    return groups


def _folder(path: bytes, inside: Sequence[bytes], counts: dict[bytes, tuple[int, int]]) -> Folder:
    lines = [counts[each] for each in inside if each in counts]
    return Folder(path, len(inside), sum(added for added, _ in lines), sum(removed for _, removed in lines))
