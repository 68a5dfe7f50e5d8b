"""A patch with the line numbers of the candidate, so that a reader can refer to lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.patterns import TextPattern

_HUNK = TextPattern(r"@@ -[0-9]{1,9}(?:,(?P<old>[0-9]{1,9}))? \+(?P<start>[0-9]{1,9})(?:,(?P<new>[0-9]{1,9}))? @@.*")
_BINARY = "GIT binary patch"
_WIDTH = 6


def number_lines(patch: bytes) -> str:
    """The canonical patch, each line with its number in the candidate; removed ones have none. Binary content is left out."""
    return "\n".join(_lines(patch.decode("utf-8", "replace").split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    old = new = at = 0
    binary = False
    for line in lines:
        if old > 0 or new > 0:
            kind = line[:1]
            if kind == "\\":
                yield f"{'':{_WIDTH}} {line}"
                continue
            yield f"{'' if kind == '-' else at:>{_WIDTH}} {line}"
            old -= kind != "+"
            new -= kind != "-"
            at += kind != "-"
            continue
        found = _HUNK.fullmatch(line) if line.startswith("@@ ") and len(line) <= 2000 else None
        if found is not None:
            old, new, at = int(found.get("old") or 1), int(found.get("new") or 1), int(found["start"])
        if line.startswith("diff --git "):
            binary = False
        if line == _BINARY:
            binary = True
            yield "[binary content]"
        elif not binary:
            yield line
