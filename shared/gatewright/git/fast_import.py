"""The stream that makes ``git fast-import`` build a tree from another tree and changes. Pure; no process is run here.

One process then costs what the change costs, where an index costs what the repository holds. fast-import does not know which
paths are dangerous, so they are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gatewright.errors import DeniedError, MalformedError
from gatewright.git.changes import FileChange, TreeChange
from gatewright.git.modes import ABSENT, REGULAR, SYMLINK
from gatewright.git.paths import display, path_fault

MODES = REGULAR | {SYMLINK}
_UNQUOTED = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')  # noqa: TID251 - linear: single characters


def check_changes(changes: Sequence[FileChange]) -> Sequence[FileChange]:
    """``changes`` when they can be written, in any order, into one tree.

    DeniedError ``git_path`` for a path that git must not hold; MalformedError ``bad_mode`` and ``bad_changes`` (one path twice,
    or a file and something below it).
    """
    kept = set()
    for change in changes:
        if fault := path_fault(change.path, change.mode):
            raise DeniedError(f"{display(change.path)} {fault}", code="git_path")
        if change.mode is not None:
            if change.mode not in MODES:
                raise MalformedError(f"{display(change.path)} has mode {change.mode!a}", code="bad_mode")
            kept.add(change.path)
    if len({change.path for change in changes}) != len(changes):
        raise MalformedError("a path is changed twice", code="bad_changes")
    for path in kept:
        if any(parent in kept for parent in _parents(path)):
            raise MalformedError(f"{display(path)} is below a file that is written too", code="bad_changes")
    return changes


def stream(tree: str, changes: Sequence[FileChange], scratch_ref: str) -> bytes:
    """Return the input for ``git fast-import --done`` that applies ``changes`` (checked) to ``tree`` and prints the resulting
    id.

    A change removes what it conflicts with: a directory in place of a new file, a file in place of a new directory.
    ``scratch_ref`` is never written.
    """
    parts = [b"D %s\n" % _quote_path(change.path) for change in changes if change.mode is None]
    for change in changes:
        if change.mode is not None:
            head = b"M %s inline %s\ndata %d\n" % (change.mode.encode(), _quote_path(change.path), len(change.content))
            parts += (head, change.content, b"\n")
    return _commit_stream(tree, parts, scratch_ref)


def stream_of_objects(tree: str, changes: Sequence[TreeChange], scratch_ref: str) -> bytes:
    """Return the input for changes whose objects already exist."""
    parts = [b"D %s\n" % _quote_path(change.path) for change in changes if change.new_mode == ABSENT]
    parts += [
        b"M %s %s %s\n" % (change.new_mode.encode(), change.new_id.encode(), _quote_path(change.path))
        for change in changes
        if change.new_mode != ABSENT
    ]
    return _commit_stream(tree, parts, scratch_ref)


def _commit_stream(tree: str, parts: Sequence[bytes], scratch_ref: str) -> bytes:
    begin = b"feature done\ncommit %s\ncommitter gate <> 0 +0000\ndata 0\n" % scratch_ref.encode()
    start = b'M 040000 %s ""\n' % tree.encode()
    # ``ls`` writes the tree and names it; the reset drops the commit that carried it.
    end = b'ls ""\nreset %s\nfrom %s\n\ndone\n' % (scratch_ref.encode(), b"0" * len(tree))
    return b"".join([begin, start, *parts, end])


def tree_in(answer: bytes) -> str | None:
    """The id in the answer to ``ls ""``, None when there is none."""
    match = re.fullmatch(rb"040000 tree ([0-9a-f]{40,64})\t\n", answer)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
    return match[1].decode() if match else None


def _quote_path(path: bytes) -> bytes:
    return b'"%s"' % _UNQUOTED.sub(lambda found: b"\\%03o" % found[0][0], path)


def _parents(path: bytes) -> list[bytes]:
    at, found = path.find(b"/"), []
    while at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found
