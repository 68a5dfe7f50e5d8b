"""Which lines of its files a patch has written. Pure; linear in the patch."""

from __future__ import annotations

_FILE = b"+++ b/"
_HUNK = b"@@ -"


def written_lines(patch: bytes) -> dict[str, set[int]]:
    """Numbers of added lines, from 1, by path; of files whose names git writes as they are."""
    found: dict[str, set[int]] = {}
    lines: set[int] = set()
    old = new = number = 0
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:  # in a hunk, where a line may look like anything
            sign = line[:1]
            if sign == b"+":
                lines.add(number)
            old -= sign in {b"-", b" "}
            new -= sign in {b"+", b" "}
            number += sign in {b"+", b" "}
        elif line.startswith(b"diff --git "):
            lines = set()
        elif line.startswith(_FILE):
            lines = found.setdefault(line[len(_FILE) :].rstrip(b"\t").decode("utf-8", "replace"), set())
        elif line.startswith(_HUNK):
            before, after = line.split(b" ", 3)[1:3]
            (_, old), (number, new) = _range(before), _range(after)
    return found


def _range(words: bytes) -> tuple[int, int]:
    """``-3,4``: from line 3, four lines; one where no number is given."""
    first, comma, count = words[1:].partition(b",")
    return int(first), int(count) if comma else 1
