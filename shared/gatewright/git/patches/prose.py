"""The text around the diffs of a patch: mails of ``git format-patch``, commits of ``git log -p`` and ``hg export``.

git ignores all text that it does not recognise as a diff. Here such text must have a form that contains no part of a
change: a mail before the first file, its signature behind the last one, the commit of ``git show``, or the table of changed
files, which must agree with the files. All other text is refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gatewright.errors import PatchError
from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.faults import REMAKE, REMOVE_TEXT, SEND_UNALTERED, SEND_WHOLE, WRITE_UNIFIED, patch_fault
from gatewright.git.patches.headers import FIELDS, GIT, INDEX, NEW, OLD
from gatewright.git.patches.hunks import HUNK

#: The line that begins a mail in a mailbox (RFC 4155): a sender, or a commit in its place, and a date.
_MBOX = re.compile(rb"From [!-~]{1,256} [A-Z][ -~]{1,32}[0-9]{2}:[0-9]{2}:[0-9]{2} [ -~]{0,16}[0-9]{4}")  # noqa: TID251 - linear: anchored and bounded
_FIELD = re.compile(rb"([A-Za-z][A-Za-z0-9-]{0,63}):(?: .*)?", re.DOTALL)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_COMMIT = re.compile(rb"commit [0-9a-f]{7,64}(?: \(.*\))?", re.DOTALL)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_NORMAL = re.compile(rb"[0-9]{1,9}(?:,[0-9]{1,9})?[acd][0-9]{1,9}(?:,[0-9]{1,9})?")  # noqa: TID251 - linear: anchored and bounded
_SUMMARY = re.compile(  # noqa: TID251 - linear: anchored and bounded
    rb" ([0-9]{1,9}) files? changed(?:, ([0-9]{1,9}) insertions?\(\+\))?(?:, ([0-9]{1,9}) deletions?\(-\))?"
)
_HG: Final = b"# HG changeset patch"
_SIGNATURES: Final = frozenset({b"-- ", b"--"})
#: Maximum lines of a signature; git's own has one, its version.
_LONGEST_SIGNATURE: Final = 10
#: Encodings of a mail in which a diff is not what it was.
_ENCODED: Final = (b"quoted-printable", b"base64")
_CUT_FILE = "the line belongs to no `diff --git` line"
_CODEX = "the patch is in the form of `apply_patch`, which git cannot read"
#: Other formats that people send, by the beginning of their line: cause and advice.
_OTHER_FORMS: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"*** Begin Patch", _CODEX, WRITE_UNIFIED),
    (b"*** End Patch", _CODEX, WRITE_UNIFIED),
    (b"*** Add File: ", _CODEX, WRITE_UNIFIED),
    (b"*** Update File: ", _CODEX, WRITE_UNIFIED),
    (b"*** Delete File: ", _CODEX, WRITE_UNIFIED),
    (b"*** Move to: ", _CODEX, WRITE_UNIFIED),
    (b"*** ", "the patch is a context diff", WRITE_UNIFIED),
    (b"diff --cc ", "a combined diff of a merge cannot be applied", REMAKE),
    (b"diff --combined ", "a combined diff of a merge cannot be applied", REMAKE),
    (b"@@@", "a combined diff of a merge cannot be applied", REMAKE),
    (b"@@", "the hunk has no header of a file before it", REMAKE),
    (b"```", "a fence of Markdown stands around the patch", REMOVE_TEXT),
    (b"~~~", "a fence of Markdown stands around the patch", REMOVE_TEXT),
    (b"\x1b[", "the patch holds colours of a terminal", "Make the patch again with `git diff --binary --no-color`"),
    (b"Only in ", "a file that is on one side alone has no content in the patch", WRITE_UNIFIED),
    (b"Binary files ", "the content of a binary file is not in the patch", REMAKE),
    (b"Property changes on:", "git has no properties of Subversion", "Remove the part about properties"),
    (b"Submodule ", "a log of a submodule is no change", "Make the patch again with `git diff --binary --submodule=short`"),
    (b"GIT binary patch", _CUT_FILE, REMAKE),
    (OLD, "no line +++ and no hunk follow the line ---", REMAKE),
    (NEW, "no line --- stands before the line +++", REMAKE),
    (b"diff ", "no diff follows the command", WRITE_UNIFIED),
    (b"<<<<<<<", "the patch has the markers of an unresolved conflict", REMAKE),
    (b"&lt;", "the patch is written for HTML", SEND_UNALTERED),
    (b"<", "the patch is HTML or an old form of diff", WRITE_UNIFIED),
    *((beginning, _CUT_FILE, REMAKE) for beginning in FIELDS),
)


class Summary(NamedTuple):
    """The numbers in the table of changed files, on line ``line``."""

    line: int
    files: int
    added: int
    removed: int


class Prose(NamedTuple):
    """Text between two diffs. ``begins``: a mail or a commit begins in it, with the ``summary`` that it has."""

    begins: bool
    summary: Summary | None


def at_diff(cursor: Cursor) -> bool:
    """Return whether the header of a file begins here."""
    if cursor.starts(GIT):
        return True
    if cursor.starts(OLD):
        return cursor.following(NEW) and cursor.second_following(HUNK)
    if cursor.starts(INDEX):
        return cursor.following(b"====")
    return cursor.starts(b"diff ") and not cursor.starts(b"diff --") and cursor.following(OLD)


def read_prose(cursor: Cursor, *, first: bool) -> Prose:
    """Read to the next diff or the end. ``first``: no file precedes. Raises PatchError for text of an unknown form."""
    begins, summary, closed = False, None, False
    while cursor.line is not None and not at_diff(cursor):
        if not cursor.line:
            cursor.advance()
            continue
        if _MBOX.fullmatch(cursor.line) or (first and _is_mail(cursor)):
            summary = _read_mail(cursor)
        elif _COMMIT.fullmatch(cursor.line) and not closed:
            summary = _read_commit(cursor)
        elif cursor.line == _HG and not closed:
            summary = _read_text(cursor)
        elif first and not begins and _is_table(cursor.line):
            summary = _read_table(cursor)
        elif cursor.line in _SIGNATURES and not first and not closed:
            _read_signature(cursor)
            closed = True
            continue
        else:
            raise refused_text(cursor, first=first)
        first, begins, closed = False, True, False
    return Prose(begins, summary)


def refused_text(cursor: Cursor, *, first: bool) -> PatchError:
    """Return why the line is not allowed there."""
    line = cursor.line or b""
    found = next((each for each in _OTHER_FORMS if line.startswith(each[0])), None)
    if found is not None:
        return patch_fault(cursor.number, found[1], found[2])
    if line.endswith(b"\r"):
        return patch_fault(cursor.number, "the line ends are those of Windows", SEND_UNALTERED)
    if _NORMAL.fullmatch(line) is not None:
        return patch_fault(cursor.number, "the patch is an old form of diff without context", WRITE_UNIFIED)
    where = "before the first file" if first else "behind the last hunk of a file"
    return patch_fault(cursor.number, f"text {where} is no part of a patch", REMOVE_TEXT)


def _is_mail(cursor: Cursor) -> bool:
    """Return whether the lines to the next empty one are the header of a mail, or of a Debian patch."""
    names = set()
    ahead = Cursor(cursor.data, cursor.at, cursor.number)
    while ahead.line:
        found = _FIELD.fullmatch(ahead.line)
        if found is not None:
            names.add(found[1].lower())
        elif not names or not ahead.starts(b" ", b"\t"):
            break
        ahead.advance()
    return bool(names & {b"subject", b"description"}) and bool(names & {b"from", b"author"})


def _read_mail(cursor: Cursor) -> Summary | None:
    """Header and text of a mail."""
    while cursor.line and not at_diff(cursor):
        name, _, value = cursor.line.lower().partition(b":")
        encoded = name == b"content-transfer-encoding" and any(each in value for each in _ENCODED)
        flowed = name == b"content-type" and (b"multipart/" in value or b"format=flowed" in value)
        if encoded or flowed:
            raise patch_fault(cursor.number, "the mail encodes its text, and the diff in it", SEND_UNALTERED)
        cursor.advance()
    return _read_text(cursor)


def _read_text(cursor: Cursor) -> Summary | None:
    """Skip any text up to the first diff; return the summary that follows the line ``---`` in it."""
    summary, below = None, False
    while cursor.line is not None and not at_diff(cursor):
        line = cursor.line
        if _MBOX.fullmatch(line):
            break
        if line in _SIGNATURES and _ends_mail(cursor):
            _read_signature(cursor)
            break
        if line.startswith((b"*** Begin Patch", b"*** Update File: ", b"diff --cc ", b"diff --combined ", b"@@")):
            raise refused_text(cursor, first=False)
        if line == b"---":
            below = True
        elif below and (found := _SUMMARY.fullmatch(line)) is not None:
            summary = Summary(cursor.number, *(int(each or 0) for each in found.groups()))
        cursor.advance()
    if cursor.line is None and summary is not None and summary.files:
        raise patch_fault(summary.line, "the mail lists changed files, and no diff follows", SEND_WHOLE)
    return summary


def _read_commit(cursor: Cursor) -> Summary | None:
    """Read the output of ``git show`` or ``git log -p`` for a commit: fields, indented message, optional table of files."""
    cursor.advance()
    while cursor.line and _FIELD.fullmatch(cursor.line) and not at_diff(cursor):
        cursor.advance()
    summary = None
    while cursor.line is not None and not at_diff(cursor) and not _COMMIT.fullmatch(cursor.line):
        if cursor.line == b"---" or _is_table(cursor.line):
            if cursor.line == b"---":
                cursor.advance()
            summary = _read_table(cursor)
        elif cursor.line and not cursor.starts(b"    ", b"Notes"):
            raise refused_text(cursor, first=False)
        else:
            cursor.advance()
    return summary


def _is_table(line: bytes) -> bool:
    """`` name | 3 ++-``, or the line that sums it up."""
    return line.startswith(b" ") and not line.startswith(b"    ") and (b" | " in line or _SUMMARY.fullmatch(line) is not None)


def _read_table(cursor: Cursor) -> Summary | None:
    summary = None
    while cursor.starts(b" "):
        found = _SUMMARY.fullmatch(cursor.line or b"")
        if found is not None:
            summary = Summary(cursor.number, *(int(each or 0) for each in found.groups()))
        cursor.advance()
    return summary


def _ends_mail(cursor: Cursor) -> bool:
    """Return whether a signature begins here, rather than a line of the text."""
    ahead = Cursor(cursor.data, cursor.at, cursor.number)
    try:
        _read_signature(ahead)
    except PatchError:
        return False
    return ahead.line is None or _MBOX.fullmatch(ahead.line) is not None


def _read_signature(cursor: Cursor) -> None:
    """``-- `` and a few lines, to the end or the next mail."""
    start = cursor.number
    cursor.advance()
    lines = 0
    while cursor.line and not _MBOX.fullmatch(cursor.line):
        if cursor.starts(b"+", b"-", b" ", b"@", b"\\") or at_diff(cursor) or lines == _LONGEST_SIGNATURE:
            raise refused_text(cursor, first=False)
        lines += 1
        cursor.advance()
    while cursor.line == b"":
        cursor.advance()
    if not lines or (cursor.line is not None and not _MBOX.fullmatch(cursor.line)):
        raise patch_fault(start, "the line is neither the end of a mail nor a line of a hunk", REMAKE)
