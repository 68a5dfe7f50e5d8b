"""The headers of a file in a patch: every line must be known to git, unique, and consistent with the others.

git accepts them in any order, with contradictions, and guesses missing names. This module reads what git reads, and refuses
everything that git would guess.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from gatewright.errors import PatchError
from gatewright.git.modes import EMPTY_BLOBS, ENTRIES
from gatewright.git.patches.binary import BINARY, read_binary
from gatewright.git.patches.canonical import read_canonical_file
from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.faults import (
    REMAKE,
    SEND_UNALTERED,
    SEND_WHOLE,
    USE_PREFIXES,
    WRITE_UNIFIED,
    patch_fault,
    quote_path,
)
from gatewright.git.patches.files import BinaryBody, FilePatch, Hunk, Prefixes
from gatewright.git.patches.hunks import HUNK, read_hunks
from gatewright.git.patches.names import (
    DEFAULT_PREFIXES,
    NO_PREFIXES,
    NULL,
    common_prefixes,
    is_relative,
    name_on_line,
    split_names,
    unquote,
)

GIT: Final = b"diff --git "
OLD: Final = b"--- "
NEW: Final = b"+++ "
INDEX: Final = b"Index: "
#: Lines between ``diff --git`` and the body, and the field of each; git has two spellings of a rename.
_FIELDS: Final = (
    (b"old mode ", "old_mode"),
    (b"new mode ", "new_mode"),
    (b"deleted file mode ", "deleted"),
    (b"new file mode ", "created"),
    (b"copy from ", "copy_from"),
    (b"copy to ", "copy_to"),
    (b"rename from ", "rename_from"),
    (b"rename to ", "rename_to"),
    (b"rename old ", "rename_from"),
    (b"rename new ", "rename_to"),
    (b"similarity index ", "similarity"),
    (b"dissimilarity index ", "dissimilarity"),
    (b"index ", "index"),
)
FIELDS: Final = tuple(beginning for beginning, _ in _FIELDS)
_INDEX = re.compile(rb"([0-9a-f]{1,64})\.\.([0-9a-f]{1,64})(?: ([0-7]{6}))?")  # noqa: TID251 - linear: anchored and bounded
_SHARE = re.compile(rb"(100|[1-9]?[0-9])%")  # noqa: TID251 - linear: of a bounded length
_MODES: Final = frozenset(mode.encode() for mode in ENTRIES)


class ReadFile(NamedTuple):
    """A file of a patch, and the prefixes of its names."""

    file: FilePatch
    prefixes: Prefixes


class _Field(NamedTuple):
    line: int
    value: bytes


class GitHeader:
    """The header of one file, between ``diff --git`` and its body."""

    def __init__(self, cursor: Cursor) -> None:
        self.line = cursor.number
        self._words = _plain_line(cursor)[len(GIT) :]
        cursor.advance()
        self._fields: dict[str, _Field] = {}
        while cursor.line and (found := next((each for each in _FIELDS if cursor.starts(each[0])), None)):
            beginning, name = found
            if name in self._fields:
                raise patch_fault(cursor.number, f"the header `{beginning.decode().strip()}` stands there twice", REMAKE)
            self._fields[name] = _Field(cursor.number, _plain_line(cursor)[len(beginning) :])
            cursor.advance()
        self.move = self._move()
        moved = self._read_rename()
        split = split_names(self._words, moved)
        if split is None:
            cause = "the two names are not those of one file with prefixes that git writes"
            raise patch_fault(self.line, cause, USE_PREFIXES)
        self.prefixes, self.old_name, self.new_name = split
        strip = self.prefixes.strip * 2
        self.old, self.new = moved or (self.old_name[strip:], self.new_name[strip:])
        for path in (self.old, self.new):
            if not is_relative(path):
                raise patch_fault(self.line, f"{quote_path(path)} is no path of a file below the repository", REMAKE, path)
        self._check_modes()
        self._check_share()

    @property
    def created(self) -> bool:
        return "created" in self._fields

    @property
    def deleted(self) -> bool:
        return "deleted" in self._fields

    @property
    def old_mode(self) -> str:
        return self._first_value("old_mode", "deleted") or ("" if self.created else self._mode_of_index())

    @property
    def new_mode(self) -> str:
        return self._first_value("new_mode", "created") or ("" if self.deleted else self._mode_of_index())

    @property
    def ids(self) -> tuple[bytes, bytes]:
        found = _INDEX.fullmatch(self._value("index"))
        return (found[1], found[2]) if found is not None else (b"", b"")

    def check_body(self, *, has_body: bool) -> None:
        """Check that a body is present if required, and absent if forbidden; otherwise a truncated patch would look the
        same."""
        path = self.new if not self.deleted else self.old
        if has_body:
            if self._value("similarity") == b"100%":
                raise patch_fault(self._at("similarity"), f"{quote_path(path)} is alike to 100% and is changed", REMAKE, path)
            return
        old_id, new_id = self.ids
        missing = f"nothing follows the header of {quote_path(path)}"
        if not (self.move or self.created or self.deleted or "new_mode" in self._fields):
            raise patch_fault(self.line, missing, SEND_WHOLE, path)
        if self.created or self.deleted:
            shown = new_id if self.created else old_id
            if len(shown) < 4 or not any(each.startswith(shown.decode()) for each in EMPTY_BLOBS):
                raise patch_fault(self.line, f"the content of {quote_path(path)} is missing", SEND_WHOLE, path)
        elif old_id != new_id or (self.move and self._value("similarity") not in {b"", b"100%"}):
            raise patch_fault(self.line, f"the content of {quote_path(path)} is missing", SEND_WHOLE, path)

    def _move(self) -> Literal["", "rename", "copy"]:
        names = [name for name in ("copy_from", "copy_to", "rename_from", "rename_to") if name in self._fields]
        kinds = [*names, *(name for name in ("created", "deleted") if name in self._fields)]
        match kinds:
            case []:
                return ""
            case ["created"] | ["deleted"]:
                return ""
            case ["copy_from", "copy_to"]:
                return "copy"
            case ["rename_from", "rename_to"]:
                return "rename"
        cause = "the headers of the file contradict each other: one of created, deleted, renamed and copied"
        raise patch_fault(self._at(kinds[-1]), cause, REMAKE)

    def _read_rename(self) -> tuple[bytes, bytes] | None:
        if not self.move:
            return None
        names = unquote(self._value(f"{self.move}_from")), unquote(self._value(f"{self.move}_to"))
        if names[0] is None or names[1] is None:
            raise patch_fault(self._at(f"{self.move}_from"), "the name is not written as git writes it", REMAKE)
        return names[0], names[1]

    def _check_modes(self) -> None:
        for name in ("old_mode", "new_mode", "created", "deleted"):
            if name in self._fields and self._value(name) not in _MODES:
                raise patch_fault(self._at(name), "no file has this mode", REMAKE, self.new)
        if ("old_mode" in self._fields) != ("new_mode" in self._fields):
            raise patch_fault(self.line, f"one of the two modes of {quote_path(self.new)} is missing", SEND_WHOLE, self.new)
        if "new_mode" in self._fields and self._value("old_mode") == self._value("new_mode"):
            raise patch_fault(self._at("new_mode"), f"the mode of {quote_path(self.new)} does not change", REMAKE, self.new)
        if ("new_mode" in self._fields) and (self.created or self.deleted):
            raise patch_fault(self._at("new_mode"), f"{quote_path(self.new)} has two modes on one side", REMAKE, self.new)
        if "index" not in self._fields:
            return
        if _INDEX.fullmatch(self._value("index")) is None:
            raise patch_fault(self._at("index"), "the line does not name two objects", REMAKE, self.new)
        mode = self._mode_of_index()
        others = {self._first_value("new_mode", "created"), self._first_value("old_mode", "deleted")} - {""}
        if mode and (mode.encode() not in _MODES or others - {mode}):
            raise patch_fault(
                self._at("index"), f"the mode of {quote_path(self.new)} is not that of the other lines", REMAKE, self.new
            )

    def _check_share(self) -> None:
        """Check that a similarity belongs to a rename or copy, and a dissimilarity to a rewritten file."""
        for name, fits in (("similarity", bool(self.move)), ("dissimilarity", not (self.move or self.created or self.deleted))):
            if name in self._fields and (not fits or _SHARE.fullmatch(self._value(name)) is None):
                raise patch_fault(
                    self._at(name), f"the line does not belong to the change of {quote_path(self.new)}", REMAKE, self.new
                )

    def _first_value(self, *names: str) -> str:
        return next((self._value(name).decode("ascii", "replace") for name in names if name in self._fields), "")

    def _mode_of_index(self) -> str:
        found = _INDEX.fullmatch(self._value("index"))
        return found[3].decode() if found is not None and found[3] else ""

    def _value(self, name: str) -> bytes:
        return self._fields[name].value if name in self._fields else b""

    def _at(self, name: str) -> int:
        return self._fields[name].line if name in self._fields else self.line


def read_git_file(cursor: Cursor, mail: int) -> ReadFile:
    """Read the file at the cursor's ``diff --git`` line and move the cursor behind its body. Raises PatchError."""
    canonical = read_canonical_file(cursor, mail)
    if canonical is not None:
        _check_sides(canonical)
        return ReadFile(canonical, DEFAULT_PREFIXES)
    start = cursor.at
    header = GitHeader(cursor)
    path = header.old if header.deleted else header.new
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryBody | None = None
    end = cursor.at
    if cursor.starts(OLD):
        _check_names(cursor, header)
        end = cursor.at
        hunks = read_hunks(cursor, path)
        if not hunks:
            raise patch_fault(header.line, f"no hunk follows the header of {quote_path(path)}", SEND_WHOLE, path)
    elif cursor.line == BINARY:
        binary = read_binary(cursor, path)
    elif cursor.starts(b"Binary files ", b"Files "):
        raise patch_fault(cursor.number, f"the content of the binary file {quote_path(path)} is not in the patch", REMAKE, path)
    elif cursor.starts(HUNK, NEW):
        raise patch_fault(
            cursor.number, f"the lines --- and +++ are missing before the hunks of {quote_path(path)}", REMAKE, path
        )
    elif cursor.starts(b"@@@"):
        raise patch_fault(cursor.number, "a combined diff of a merge cannot be applied", REMAKE, path)
    elif cursor.line is not None and cursor.line.endswith(b"\r"):
        raise _windows(cursor)
    header.check_body(has_body=bool(hunks or binary))
    old_id, new_id = header.ids
    file = FilePatch(
        line=header.line,
        start=start,
        end=end,
        mail=mail,
        old=None if header.created else header.old,
        new=None if header.deleted else header.new,
        move=header.move,
        old_mode=header.old_mode,
        new_mode=header.new_mode,
        old_id=old_id,
        new_id=new_id,
        hunks=hunks,
        binary=binary,
    )
    _check_sides(file)
    return ReadFile(file, header.prefixes)


def read_plain_file(cursor: Cursor, mail: int, known: Prefixes | None) -> ReadFile:
    """The same of a file without a ``diff --git`` line, as ``diff -u`` and ``svn diff`` write it.

    ``known`` are the prefixes of the files before it: a new or deleted file has one name, which does not show them.
    """
    line, first, index = cursor.number, cursor.at, None
    if cursor.starts(INDEX):
        index = unquote(_plain_line(cursor)[len(INDEX) :])
        cursor.advance()
        if cursor.line is None or not cursor.line or cursor.line.strip(b"="):
            raise patch_fault(cursor.number, "a line of = is missing below `Index:`", SEND_WHOLE)
        cursor.advance()
    elif not cursor.starts(OLD):  # the command that made the diff
        _plain_line(cursor)
        cursor.advance()
    if not cursor.starts(OLD):
        cause = "a content of a binary file is not in the patch" if cursor.starts(b"Cannot display") else "no diff follows"
        raise patch_fault(cursor.number, cause, WRITE_UNIFIED)
    start = cursor.number
    names = _read_name(cursor), _name_below(cursor)
    prefixes = _prefixes(start, names, known)
    old, new = (None if name == NULL else name[prefixes.strip * 2 :] for name in names)
    path = new if new is not None else old or b""
    if not is_relative(path):
        raise patch_fault(start, f"{quote_path(path)} is no path of a file below the repository", REMAKE, path)
    if index is not None and index not in {*names, path}:
        raise patch_fault(line, f"`Index:` names another file than {quote_path(path)}", REMAKE, path)
    end = cursor.at
    hunks = read_hunks(cursor, path)
    if not hunks:
        raise patch_fault(start, f"no hunk follows the header of {quote_path(path)}", SEND_WHOLE, path)
    file = FilePatch(line=line, start=first, end=end, mail=mail, old=old, new=new, hunks=hunks)
    _check_sides(file)
    return ReadFile(file, prefixes)


def _check_names(cursor: Cursor, header: GitHeader) -> None:
    """Check that the lines ``---`` and ``+++`` name the files of the header, and move the cursor behind them."""
    line = cursor.number
    old, new = _read_name(cursor), _name_below(cursor)
    expected = NULL if header.created else header.old_name, NULL if header.deleted else header.new_name
    for name, other, number in ((old, expected[0], line), (new, expected[1], line + 1)):
        if name != other:
            cause = f"the name is {quote_path(name)} where line {header.line} and those below it have {quote_path(other)}"
            raise patch_fault(number, cause, REMAKE, header.new)


def _check_sides(file: FilePatch) -> None:
    """A new file has no old lines, a deleted one no new lines."""
    for hunk in file.hunks:
        if file.old is None and hunk.old_count:
            raise patch_fault(hunk.line, f"{quote_path(file.path)} is new, and the hunk has old lines", REMAKE, file.path)
        if file.new is None and hunk.new_count:
            raise patch_fault(hunk.line, f"{quote_path(file.path)} is deleted, and the hunk has new lines", REMAKE, file.path)
    if (file.old is None or file.new is None) and len(file.hunks) > 1:
        cause = f"{quote_path(file.path)} is new or deleted, and has more than one hunk"
        raise patch_fault(file.hunks[1].line, cause, REMAKE, file.path)


def _prefixes(line: int, names: tuple[bytes, bytes], known: Prefixes | None) -> Prefixes:
    if NULL not in names:
        found = common_prefixes(*names)
    elif names == (NULL, NULL):
        raise patch_fault(line, "both names are /dev/null", REMAKE)
    elif known is not None:
        found = (
            known if all(name == NULL or name.startswith(prefix) for name, prefix in zip(names, known, strict=True)) else None
        )
    else:  # the convention, if nothing else decides
        found = DEFAULT_PREFIXES if all(map(_has_default, names, DEFAULT_PREFIXES)) else NO_PREFIXES
    if found is None:
        raise patch_fault(line, "the two names are not those of one file with prefixes that git writes", USE_PREFIXES)
    return found


def _has_default(name: bytes, prefix: bytes) -> bool:
    return name == NULL or name.startswith(prefix)


def _read_name(cursor: Cursor) -> bytes:
    """Return the name on a line ``---`` or ``+++``, and move the cursor behind it."""
    found = name_on_line(_plain_line(cursor)[len(OLD) :])
    if found is None:
        raise patch_fault(cursor.number, "the name is not written as git writes it", REMAKE)
    cursor.advance()
    return found


def _name_below(cursor: Cursor) -> bytes:
    if not cursor.starts(NEW):
        raise patch_fault(cursor.number - 1, "no line +++ follows the line ---", REMAKE)
    return _read_name(cursor)


def _plain_line(cursor: Cursor) -> bytes:
    """Return the line of a header; refuse invisible characters."""
    line = cursor.line or b""
    if line.endswith(b"\r"):
        raise _windows(cursor)
    if not cursor.complete:
        raise patch_fault(cursor.number, "the last line has no line end", SEND_WHOLE)
    return line


def _windows(cursor: Cursor) -> PatchError:
    return patch_fault(cursor.number, "the line ends are those of Windows", SEND_UNALTERED)
