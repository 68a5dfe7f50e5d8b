"""The version change of a canonical diff that does nothing else. Pure; linear in the patch.

For dependency updates that a person approves in advance. Any diff that is not clearly such a change needs a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from gatewright.git.patches.files import FilePatch
from gatewright.git.patches.lines import files_of

Move = Literal["patch", "minor", "major"]
MOVES: Final[tuple[Move, ...]] = ("patch", "minor", "major")

#: ``1.2.3`` and ``v1.2.3``: whole, no release candidate, no address of a host.
_VERSION = re.compile(  # noqa: TID251 - linear: its parts are bounded, and each begins with another kind of byte
    rb"(?<![0-9A-Za-z.+_])v?(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(?![0-9A-Za-z+_-])(?!\.[0-9])"
)
#: A line that is the digest of what the version before it names (pip, npm, Cargo).
_DIGEST = re.compile(  # noqa: TID251 - linear: its parts are bounded but for spaces, which nothing else begins with
    rb'[ \t]*(?:--hash=sha256:[0-9a-f]{64}|"integrity": "sha512-[0-9A-Za-z+/]{86}=="|checksum = "[0-9a-f]{64}")[ ,\\]{0,3}'
)


def version_move(patch: bytes) -> Move | None:
    """Return the widest version change in ``patch``; None if it changes anything else or nothing.

    1. Only contents of files change: no file is new, deleted, renamed or binary, or changes its mode. 2. Each block has as
    many removed as added lines, which differ in versions only. 3. All versions of a line change from one to a higher one.
    4. Digests may change in a block in which a version changes.
    """
    widest: Move | None = None
    for file in files_of(patch):
        if not _is_edit(file):  # 1
            return None
        for removed, added in _blocks(patch, file):
            move = _block(removed, added)
            if move is None:
                return None
            widest = move if widest is None else max(widest, move, key=MOVES.index)
    return widest


def _is_edit(file: FilePatch) -> bool:
    """Return whether only lines of a file change, and not the end of the file."""
    same = file.old is not None and file.old == file.new and file.old_mode == file.new_mode and file.binary is None
    return same and not any(hunk.old_ends or hunk.new_ends for hunk in file.hunks)


def _blocks(patch: bytes, file: FilePatch) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield the removed and added lines of each block, without their signs."""
    for hunk in file.hunks:
        removed: list[bytes] = []
        added: list[bytes] = []
        for line in patch[hunk.at : hunk.end].split(b"\n"):
            if line.startswith(b"-"):
                removed.append(line[1:])
            elif line.startswith(b"+"):
                added.append(line[1:])
            elif removed or added:
                yield removed, added
                removed, added = [], []


def _block(removed: list[bytes], added: list[bytes]) -> Move | None:
    """The widest move of one block."""
    before = [line for line in removed if _DIGEST.fullmatch(line) is None]  # 4
    after = [line for line in added if _DIGEST.fullmatch(line) is None]
    if not before or len(before) != len(after):  # 2
        return None
    moves = [_line_move(old, new) for old, new in zip(before, after, strict=True)]
    found = [move for move in moves if move is not None]
    return max(found, key=MOVES.index) if len(found) == len(moves) else None


def _line_move(before: bytes, after: bytes) -> Move | None:
    """Return the version change of one line."""
    olds, news = list(_VERSION.finditer(before)), list(_VERSION.finditer(after))
    if not olds or _VERSION.sub(b"\0", before) != _VERSION.sub(b"\0", after) or b"\0" in before + after:  # 2
        return None
    pairs = {(_numbers(old), _numbers(new)) for old, new in zip(olds, news, strict=True)}
    moved = [(old, new) for old, new in pairs if old != new]
    if len(moved) != 1 or moved[0][1] <= moved[0][0]:  # 3
        return None
    (old, new) = moved[0]
    return "major" if old[0] != new[0] else "minor" if old[1] != new[1] else "patch"


def _numbers(found: re.Match[bytes]) -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in found.groups())
    return major, minor, patch
