"""The stored form of a file that its attributes require, and a check of blobs against it. Pure; linear in the content.

``git add`` converts CRLF to LF, other encodings to UTF-8, expanded keywords to ``$Id$``, and runs filters. A blob that was
made without git may have another form. A checkout then shows it as modified, or exposes a secret that a filter should
encrypt. The rules are those of git's ``convert.c`` (gitattributes(5), "Checking-out and checking-in").
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gatewright.patterns import BytesPattern

STORED_FORM: Final = "stored_form_differs"
LFS_POINTER: Final = "lfs_pointer_expected"
FILTER: Final = "filter_not_applied"

_UNSPECIFIED: Final = "unspecified"
_SET: Final = "set"
_UNSET: Final = "unset"
#: A pointer of Git LFS (git-lfs, docs/spec.md); the first name of the project still counts.
_LFS_VERSIONS: Final = (b"version https://git-lfs.github.com/spec/v1", b"version https://hawser.github.com/spec/v1")
LFS_LARGEST: Final = 1024
_LFS_OID = re.compile(rb"oid sha256:[0-9a-f]{64}")  # noqa: TID251 - linear: of a fixed length
_LFS_SIZE = re.compile(rb"size [0-9]{1,19}")  # noqa: TID251 - linear: anchored and bounded
_LFS_EXTENSION = re.compile(rb"ext-[0-9]-[a-z0-9-]{1,64} sha256:[0-9a-f]{64}")  # noqa: TID251 - linear: anchored and bounded
#: Filters that encrypt, by the beginning of their names, and how what they store begins.
_ENCRYPTED: Final = {"git-crypt": b"\0GITCRYPT\0", "crypt": b"U2FsdGVkX1", "transcrypt": b"U2FsdGVkX1"}
_KEYWORD = BytesPattern(rb"\$Id:[^$\n]*\$")

_CONTROLS: Final = bytes(each for each in range(32) if each not in b"\b\t\x1b\x0c\r\n") + b"\x7f"


class Attributes(NamedTuple):
    """Those that decide what git stores: a value, ``set``, ``unset`` or ``unspecified``."""

    text: str = _UNSPECIFIED
    crlf: str = _UNSPECIFIED
    eol: str = _UNSPECIFIED
    working_tree_encoding: str = _UNSPECIFIED
    ident: str = _UNSPECIFIED
    filter: str = _UNSPECIFIED


class LineEndRemark(NamedTuple):
    """An observation about changed line ends of a file; ``line`` is the first line of the rarer kind."""

    words: str
    line: int | None = None


class FormFault(NamedTuple):
    """The reason why a blob differs from the form that its attributes require. ``earlier``: the file had the same fault
    before."""

    code: str
    words: str
    earlier: bool = False


def form_fault(attributes: Attributes, content: bytes, before: bytes | None) -> FormFault | None:
    """Return the fault of ``content`` at a path with ``attributes``, replacing ``before``; None if git would store it
    unchanged."""
    fault = _filter_fault(attributes.filter, content)
    if fault is not None:
        return fault
    words = (
        _encoding_fault(attributes, content)
        or _line_end_fault(attributes, content, before)
        or _ident_fault(attributes, content)
    )
    if words is None:
        return None
    same = before is not None and (_encoding_fault(attributes, before) or _line_end_fault(attributes, before, None))
    return FormFault(STORED_FORM, words, bool(same or (before is not None and _ident_fault(attributes, before))))


def line_end_remark(before: bytes | None, content: bytes) -> LineEndRemark | None:
    """Line ends that a change mixes, or turns round in a whole file; None for what is no text, or was mixed before."""
    if _looks_binary(content) or (before is not None and _looks_binary(before)):
        return None
    crlf, lf = _line_ends(content)
    old_crlf, old_lf = _line_ends(before or b"")
    if crlf and lf:
        if old_crlf and old_lf:
            return None
        rarer = "CRLF" if crlf <= lf else "LF"
        return LineEndRemark(f"Mixes line ends: {crlf} lines end in CRLF and {lf} in LF.", _first_line(content, rarer))
    if old_crlf and not old_lf and lf:
        return LineEndRemark(f"Changes the line ends of the whole file from CRLF to LF ({lf} lines).")
    if old_lf and not old_crlf and crlf:
        return LineEndRemark(f"Changes the line ends of the whole file from LF to CRLF ({crlf} lines).")
    return None


class LfsPointer(NamedTuple):
    """The SHA-256 and the size in bytes of the content that a pointer stands for."""

    oid: str
    size: int


def is_lfs_pointer(content: bytes) -> bool:
    """Return whether ``content`` is a complete pointer of Git LFS."""
    lines = content.split(b"\n") if content.startswith(_LFS_VERSIONS) and len(content) <= LFS_LARGEST else []
    if len(lines) < 4 or lines[0] not in _LFS_VERSIONS or lines[-1]:
        return False
    *extensions, oid, size = lines[1:-1]
    return (
        all(_LFS_EXTENSION.fullmatch(line) is not None for line in extensions)
        and _LFS_OID.fullmatch(oid) is not None
        and _LFS_SIZE.fullmatch(size) is not None
    )


def read_lfs_pointer(content: bytes) -> LfsPointer | None:
    """Return the pointer in ``content``; None for other content, and for one whose object an extension of Git LFS changes."""
    lines = content.split(b"\n", 5) if is_lfs_pointer(content) else []
    if len(lines) != 4:
        return None
    return LfsPointer(lines[1].removeprefix(b"oid sha256:").decode(), int(lines[2].removeprefix(b"size ")))


def _filter_fault(name: str, content: bytes) -> FormFault | None:
    if name in {_UNSPECIFIED, _SET, _UNSET} or not content:
        return None
    if name == "lfs":
        if is_lfs_pointer(content):
            return None
        what = "a broken pointer" if content.startswith(_LFS_VERSIONS) else f"{len(content)} bytes of content"
        words = f"Git LFS stores this path (filter=lfs), and the change has {what} where a pointer belongs"
        advice = "Let a commit with git-lfs add the file, or take the path out of .gitattributes"
        return FormFault(LFS_POINTER, f"{words}. {advice}.")
    beginning = next((start for known, start in _ENCRYPTED.items() if name.startswith(known)), None)
    if beginning is not None and content.startswith(beginning):
        return None
    words = f"git stores what filter={name[:80]} makes of this path, and that filter is not run here"
    advice = "Let a commit with the filter add the file, or take the path out of .gitattributes"
    return FormFault(FILTER, f"{words}. {advice}.")


def _encoding_fault(attributes: Attributes, content: bytes) -> str | None:
    encoding = attributes.working_tree_encoding
    if encoding in {_UNSPECIFIED, _SET, _UNSET} or not content:
        return None
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        is_utf8 = False
    else:
        is_utf8 = b"\0" not in content
    if is_utf8:
        return None
    rule = f"working-tree-encoding={encoding[:40]}"
    return f"git stores this path in UTF-8 ({rule}), and the content is not UTF-8. Convert it to UTF-8."


def _line_end_fault(attributes: Attributes, content: bytes, before: bytes | None) -> str | None:
    rule, automatic = _text_rule(attributes)
    if not rule:
        return None
    count = content.count(b"\r\n")
    if not count or (automatic and (_looks_binary(content) or _has_crlf(before))):
        return None
    return f"git stores this path with LF ({rule}), and {count} lines end in CRLF. Convert the line ends to LF."


def _has_crlf(content: bytes | None) -> bool:
    """Return whether content has CRLF: git then converts no line ends on its own (gitattributes(5), ``text=auto``)."""
    return content is not None and b"\r\n" in content and not _looks_binary(content)


def _text_rule(attributes: Attributes) -> tuple[str, bool]:
    """Return the attributes that make git convert line ends (empty for none), and whether it first checks for text."""
    name, value = ("text", attributes.text) if attributes.text != _UNSPECIFIED else ("crlf", attributes.crlf)
    eol = f" eol={attributes.eol}" if attributes.eol in {"lf", "crlf"} else ""
    if value == _UNSET:
        return "", False
    if value == "auto":
        return f"text=auto{eol}", True
    if value in {_SET, "input"}:
        return f"{name}{eol}" if value == _SET else f"{name}=input", False
    return eol.strip(), False


def _line_ends(content: bytes) -> tuple[int, int]:
    """Return how many lines end in CRLF, and how many in LF alone."""
    crlf = content.count(b"\r\n")
    return crlf, content.count(b"\n") - crlf


def _first_line(content: bytes, kind: str) -> int:
    """The number of the first line that ends so."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.endswith(b"\r") == (kind == "CRLF"):
            return number
    return 1


def _looks_binary(content: bytes) -> bool:
    """Apply git's heuristic: a NUL, a lone CR, or too many unprintable bytes."""
    if b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return True
    text = content.removesuffix(b"\x1a")
    hidden = len(text) - len(text.translate(None, _CONTROLS))
    ends = text.count(b"\r") + text.count(b"\n")
    return (len(text) - hidden - ends) >> 7 < hidden


def _ident_fault(attributes: Attributes, content: bytes) -> str | None:
    if attributes.ident != _SET or _KEYWORD.first(content) is None:
        return None
    return "git stores the keyword as $Id$ (ident), and the content has it expanded. Write $Id$."
