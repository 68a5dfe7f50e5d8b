"""The complete reader of patches: every line is the header of a file, a line of its body, or text of a known form around it.

Only this module splits a patch into files. A patch that it cannot read is refused, with the line and advice, before git
reads it in its own way: git skips what it does not understand. Pure; linear in the patch.
"""

from __future__ import annotations

from typing import Final

from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.faults import ONE_DIFF, REMAKE, SEND_UNALTERED, SEND_WHOLE, USE_PREFIXES, patch_fault, quote_path
from gatewright.git.patches.files import FilePatch, Prefixes, Reading
from gatewright.git.patches.headers import GIT, ReadFile, read_git_file, read_plain_file
from gatewright.git.patches.prose import Summary, at_diff, read_prose

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_UTF_8_MARK: Final = b"\xef\xbb\xbf"


def read_patch(patch: bytes) -> Reading:
    """Return all files of ``patch``. Raises PatchError (``patch_malformed``); an empty patch has no files."""
    if not patch:
        return Reading(())
    _refuse_encodings(patch)
    return _Reader(patch).read()


class _Reader:
    """The state of reading one patch. ``mail`` numbers the mails or commits that it consists of."""

    def __init__(self, patch: bytes) -> None:
        self._cursor = Cursor(patch)
        self._files: list[FilePatch] = []
        self._prefixes: Prefixes | None = None
        self._mail = self._first_of_mail = 0
        self._summary: Summary | None = None
        #: By path: the mail of the last file that changes it. Also the paths that renames removed.
        self._touched: dict[bytes, int] = {}
        self._moved: set[bytes] = set()

    def read(self) -> Reading:
        cursor = self._cursor
        while cursor.line is not None:
            if at_diff(cursor):
                self._add(self._read_file())
                continue
            prose = read_prose(cursor, first=not self._files and not self._mail)
            if prose.begins or cursor.line is None:
                self._close_mail()
            if prose.begins:
                self._mail += 1
                self._summary = prose.summary
        self._close_mail()
        if not self._files:
            raise patch_fault(1, "there is no diff of a file in the patch", REMAKE)
        return Reading(tuple(self._files), self._prefixes.strip if self._prefixes is not None else 1)

    def _read_file(self) -> ReadFile:
        if self._cursor.starts(GIT):
            return read_git_file(self._cursor, self._mail)
        return read_plain_file(self._cursor, self._mail, self._prefixes)

    def _add(self, found: ReadFile) -> None:
        """1. all files have the same prefixes  2. what is renamed or copied is not changed elsewhere in the patch: git takes it
        as it was before the patch, and would drop that change."""
        file = found.file
        if self._prefixes is not None and found.prefixes != self._prefixes:  # 1
            cause = f"the names of {quote_path(file.path)} have other prefixes than those of the files before it"
            raise patch_fault(file.line, cause, USE_PREFIXES, file.path)
        self._prefixes = found.prefixes
        if file.move and file.old is not None:  # 2
            earlier = self._touched.get(file.old)
            if earlier is not None and (file.move == "rename" or earlier != file.mail):
                cause = f"{quote_path(file.path)} is made of {quote_path(file.old)}, which another part of the patch changes"
                raise patch_fault(file.line, cause, ONE_DIFF, file.path)
        if file.move != "copy" and file.old in self._moved:
            cause = f"{quote_path(file.old or b'')} is renamed and changed in one patch"
            raise patch_fault(file.line, cause, ONE_DIFF, file.path)
        for path in (file.new, None if file.move == "copy" else file.old):
            if path is not None:
                self._touched[path] = file.mail
        if file.move == "rename" and file.old is not None:
            self._moved.add(file.old)
        if file.new is not None:
            self._moved.discard(file.new)
        self._files.append(file)

    def _close_mail(self) -> None:
        """The table of changed files in a mail agrees with the files that follow it."""
        promised, self._summary = self._summary, None
        files, self._first_of_mail = self._files[self._first_of_mail :], len(self._files)
        if promised is None:
            return
        has = len({file.path for file in files}), sum(file.added for file in files), sum(file.removed for file in files)
        if has != promised[1:]:
            words = "{} files, {} added and {} removed lines"
            cause = f"the table promises {words.format(*promised[1:])}, and the patch has {words.format(*has)}"
            raise patch_fault(promised.line, cause, SEND_WHOLE)


def _refuse_encodings(patch: bytes) -> None:
    if patch.startswith(_UTF_8_MARK):
        raise patch_fault(1, "a byte order mark stands before the patch", SEND_UNALTERED)
    if patch.startswith(_UTF_16) or b"\0" in patch[:4]:
        raise patch_fault(1, "the patch is written in UTF-16", "Send it in UTF-8: `git diff --binary --output=FILE`")
