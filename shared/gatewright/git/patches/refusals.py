"""The reason why git does not apply a patch, with file and hunk. Pure: from git's output and the patch as read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gatewright.git.changes import TreeEntry
from gatewright.git.patches.faults import patch_fault, quote_path
from gatewright.git.patches.files import FilePatch, Hunk, Reading

_FAILED = re.compile(rb"error: patch failed: (.+):([0-9]{1,18})")  # noqa: TID251 - linear: a number at the end ends it
_STATES: Final = (
    (b": does not exist in index", "missing"),
    (b": No such file or directory", "missing"),
    (b": already exists in index", "exists"),
    (b": already exists in working directory", "exists"),
)
#: Paths of the same ending that a message names.
_MOST_NAMED: Final = 3
_ON_BASELINE: Final = "Make the patch again on the commit that the run starts from"
_ESCAPED: Final = (b"&lt;", b"&gt;", b"&amp;", b"&quot;")


class Refusal(NamedTuple):
    """A refusal for people; ``path`` is the file, if git names one, and ``missing`` means that the baseline lacks it."""

    words: str
    path: bytes | None
    missing: bool = False


def explain(output: bytes, shown: str, patch: bytes, reading: Reading) -> Refusal:
    """Explain git's output for ``patch``; ``shown`` is that output on one line, for unknown causes."""
    for line in output.split(b"\n"):
        found = _FAILED.fullmatch(line)
        if found is not None:
            return _mismatch(found[1], int(found[2]), patch, reading)
        for ending, state in _STATES:
            if line.startswith(b"error: ") and line.endswith(ending):
                path = line[len(b"error: ") : -len(ending)]
                if state == "exists":
                    words = f"the patch creates {quote_path(path)}, and the baseline has it. {_ON_BASELINE}."
                    return Refusal(words, path)
                return Refusal(f"the patch changes {quote_path(path)}, and the baseline does not have it.", path, missing=True)
    return Refusal(f"the patch does not apply: {shown}", None)


def advice_for_missing(path: bytes, names: Sequence[bytes]) -> str:
    """Return advice about a file that the baseline lacks; ``names`` are its files."""
    alike = [quote_path(name) for name in names if name.endswith(b"/" + path)]
    if not alike:
        return f"{_ON_BASELINE}, at the top of the repository."
    more = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
    words = f"It has {', '.join(alike[:_MOST_NAMED])}{more}"
    return f"{words}: make the patch at the top of the repository, without --relative and with the prefixes a/ and b/."


def _mismatch(path: bytes, start: int, patch: bytes, reading: Reading) -> Refusal:
    found = next(_hunks_at(path, start, reading), None)
    if found is None:
        return Refusal(f"{quote_path(path)} differs from what the patch expects near line {start}. {_ON_BASELINE}.", path)
    number, hunk = found
    where = f"hunk {number} of {quote_path(path)} (line {hunk.line} of the patch)"
    words = f"{where} does not match the baseline near line {start}"
    body = patch[hunk.at : hunk.end]
    if any(each in body for each in _ESCAPED):
        return Refusal(f"{words}. If the patch was copied from a web page, it has &lt; where the file has <.", path)
    return Refusal(f"{words}. {_ON_BASELINE}.", path)


def _hunks_at(path: bytes, start: int, reading: Reading) -> Iterator[tuple[int, Hunk]]:
    for file in reading.files:
        if path in {file.old, file.new}:
            for number, hunk in enumerate(file.hunks, start=1):
                if hunk.old_start == start:
                    yield number, hunk


# Patches made in a subfolder: their names lack the folder, and may fit another file of the repository. Pure.
def meant_elsewhere(files: Iterable[FilePatch], entries: Sequence[TreeEntry]) -> None:
    """Refuse a patch whose ``index`` line names the content of a file with the same path ending in another folder.

    ``files`` are those whose own path has other content in the baseline, whose files are ``entries``. Raises PatchError
    (``patch_malformed``).
    """
    by_name: dict[bytes, list[TreeEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.path.rpartition(b"/")[2], []).append(entry)
    for file in files:
        path = file.old or b""
        for entry in by_name.get(path.rpartition(b"/")[2], ()):
            if entry.path.endswith(b"/" + path) and entry.object_id.startswith(file.old_id.decode()):
                cause = f"the patch names {quote_path(path)}, and was made for {quote_path(entry.path)}"
                advice = "Make the patch again at the top of the repository, without --relative"
                raise patch_fault(file.line, cause, advice, path)
