"""How much a canonical diff changes, in lines. Pure; linear in the patch."""

from __future__ import annotations

_HUNK = b"@@ -"
_FILE = b"diff --git "
_BINARY = b"GIT binary patch"


def changed_lines(patch: bytes) -> int:
    """Lines that ``patch`` adds and removes; of a binary file, the lines of its encoded content.

    A patch that is none of git's is counted as far as it goes: nothing is raised.
    """
    count = old = new = 0
    binary = False
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:  # in a hunk, where a line may look like anything
            sign = line[:1]
            count += sign in {b"-", b"+"}
            old -= sign in {b"-", b" "}
            new -= sign in {b"+", b" "}
        elif line.startswith(_FILE):
            binary = False
        elif line.startswith(_HUNK):
            old, new = hunk_lengths(line)
        elif line == _BINARY:
            binary = True
        elif binary:
            count += bool(line)
    return count


def hunk_lengths(header: bytes) -> tuple[int, int]:
    """``@@ -3,4 +3,5 @@``: four lines before, five after; none where that is not to be read."""
    words = header.split(b" ", 3)
    if len(words) < 3:
        return 0, 0
    before, after = (_count(word) for word in words[1:3])
    return before, after


def _count(word: bytes) -> int:
    _, comma, count = word[1:].partition(b",")
    if not comma:
        return 1
    return int(count) if count.isdigit() and len(count) < 10 else 0
