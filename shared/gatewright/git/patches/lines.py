"""Which lines a canonical patch shows, on either side. Pure; linear in the patch."""

from __future__ import annotations

from collections.abc import Mapping

_HUNK = b"@@ -"


def shown_lines(patch: bytes) -> Mapping[str, frozenset[int]]:
    """Numbers of the lines in the hunks, by path: those of the new side as they are, removed ones as negative numbers.

    Of files whose names git writes without quotes; a patch that is none of git's is read as far as it goes.
    """
    found: dict[str, set[int]] = {}
    before = after = ""
    old = new = old_number = number = 0
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:  # in a hunk, where a line may look like anything
            sign = line[:1]
            if sign == b"-":
                found.setdefault(before, set()).add(-old_number)
            elif sign in {b"+", b" "}:
                found.setdefault(after, set()).add(number)
            old -= sign in {b"-", b" "}
            old_number += sign in {b"-", b" "}
            new -= sign in {b"+", b" "}
            number += sign in {b"+", b" "}
        elif line.startswith(b"diff --git "):
            before = after = ""
        elif line.startswith(b"--- a/"):
            before = _name(line[6:])
        elif line.startswith(b"+++ b/"):
            after = _name(line[6:])
        elif line.startswith(_HUNK):
            old_number, old, number, new = _ranges(line)
    return {path: frozenset(lines) for path, lines in found.items() if path}


def _name(name: bytes) -> str:
    return name.rstrip(b"\t").decode("utf-8", "backslashreplace")


def _ranges(header: bytes) -> tuple[int, int, int, int]:
    words = header.split(b" ", 3)
    if len(words) < 3:
        return 0, 0, 0, 0
    return (*_range(words[1]), *_range(words[2]))


def _range(word: bytes) -> tuple[int, int]:
    """``-3,4``: four lines from the third on; nothing where that is not to be read."""
    start, comma, count = word[1:].partition(b",")
    numbers = (start, count if comma else b"1")
    if not all(each.isdigit() and len(each) < 10 for each in numbers):
        return 0, 0
    return int(numbers[0]), int(numbers[1])
