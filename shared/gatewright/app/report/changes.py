"""The change for readers: each file with its hunks, coloured, large ones folded, omissions stated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from gatewright.app.report.account import BundleAccount
from gatewright.app.report.limits import PageLimits
from gatewright.app.report.markup import Child, fold, table, tag, with_class
from gatewright.app.report.patch import FilePatch, Hunk, PatchLine, listed_paths, parse_patch
from gatewright.app.report.syntax import Colours, Piece, language_of
from gatewright.evidence import layout
from gatewright.git.paths import display
from gatewright.view.safe_text import size_words

#: Lines longer than this are cut in the page.
MOST_CHARACTERS = 2_000
#: A true minus, as wide as the plus beside it.
MINUS = "\N{MINUS SIGN}"
_KINDS = {"added": "new", "deleted": "deleted", "modified": "", "mode": "mode"}


@dataclass
class _Room:
    """The remaining lines that may be shown, and their colours."""

    lines: int
    #: Whether lines get ids.
    ids: bool = False
    #: Files that were drawn.
    files: int = 0
    colours: Colours = field(default_factory=Colours)


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A patch of the bundle: its path, its size in bytes, the bytes read, and its files."""

    path: str
    size: int
    read: int
    files: tuple[FilePatch, ...]
    #: All paths that the bundle lists, if the patch is the canonical one.
    names: tuple[bytes, ...] = ()

    @property
    def count(self) -> int:
        """Return how many files it changes, read or not."""
        return max(len(self.files), len(self.names))

    @property
    def whole(self) -> bool:
        """Return whether all of it was read, so that lines can be counted."""
        return self.read == self.size


def change_of(account: BundleAccount, path: str, limits: PageLimits) -> PatchFile:
    """The patch in ``path``, as far as the limits let it be read."""
    found = account.excerpt(path, limits.patch)
    names = listed_paths(account.excerpt(layout.NAMES, limits.patch).head) if path == layout.PATCH else ()
    return PatchFile(path, found.size, len(found.head), parse_patch(found.head), names)


def changes(account: BundleAccount, candidate: PatchFile, limits: PageLimits) -> Iterator[Element]:
    """The section's content: the canonical patch; where there is none, what the workers handed over."""
    room = _Room(limits.all_lines)
    if candidate.size:
        yield from _change_elements(candidate, room, limits)
        return
    yield with_class("p", "note", "There is no candidate: the run ended before one, or it changes nothing.")
    handed = [path for path in account.files if path.startswith("patches/") and account.files[path]]
    for path in handed[: limits.open_files]:
        yield tag("h3", None, "Not accepted: ", tag("code", None, path))
        yield from _change_elements(change_of(account, path, limits), room, limits)
    if len(handed) > limits.open_files:
        yield with_class("p", "cut", f"{len(handed) - limits.open_files} more patches are not shown; they are in patches/.")


def file_lines(file: FilePatch, number: int, source: str, limits: PageLimits, skipped: int = 0) -> Iterator[Element]:
    """The lines of file ``number`` of a change, from 1, after the first ``skipped``; each has an id (``file-2-new-14``)."""
    rest = FilePatch(file.path, file.kind, file.modes, binary=file.binary, size=file.size)
    passed = 0
    for hunk in file.hunks:
        kept = hunk.lines[max(0, skipped - passed) :]
        passed += len(hunk.lines)
        if kept or not hunk.lines:
            rest.hunks.append(Hunk(hunk.heading, kept))
    room = _Room(limits.shown_lines, ids=True, files=number - 1)
    yield from _body(rest, source, room, limits)


def _change_elements(change: PatchFile, room: _Room, limits: PageLimits) -> Iterator[Element]:
    files = change.files
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    noun = "file" if change.count == 1 else "files"
    yield with_class("p", "sum", f"{change.count:,} {noun}, ", *_counts(added, removed), "" if change.whole else " so far")
    if not change.whole:
        words = (
            f"The patch has {size_words(change.size)}; the first {size_words(change.read)} are shown, and their lines counted. "
        )
        yield with_class("p", "cut", f"{words}The whole is in {change.path}.")
    few = len(files) <= limits.open_files
    most = limits.each_file
    if change.count > most:
        yield from _by_folder(change)
    shown = (_file(file, change.path, room, limits, is_open=few) for file in files[:most])
    if few:
        yield from shown
    else:
        yield fold(f"Show the {'first ' if change.count > most else ''}{min(len(files), most)} files", shown)
    if change.count > most:
        yield with_class(
            "p", "cut", f"{change.count - min(len(files), most):,} more files are not shown; they are in {change.path}."
        )


def _by_folder(change: PatchFile) -> Iterator[Element]:
    """Yield the number of files per folder, for thousands of files, the largest first."""
    folders = sum_folders(change.files, change.names)
    rows = (
        (
            with_class("code", "path", display(each.path) or "(top)"),
            f"{each.files:,} file{'s' if each.files != 1 else ''}",
            *(_counts(each.added, each.removed)[::2] if change.whole else ()),
        )
        for each in folders[:MOST_FOLDERS]
    )
    yield table("folders", rows)
    if rest := folders[MOST_FOLDERS:]:
        words = f"{len(rest):,} more folders with {sum(each.files for each in rest):,} files are not listed."
        yield with_class("p", "cut", words)


def _counts(added: int, removed: int) -> tuple[Element, str, Element]:
    return with_class("span", "plus", f"+{added}"), " ", with_class("span", "minus", f"{MINUS}{removed}")


def _file(file: FilePatch, source: str, room: _Room, limits: PageLimits, *, is_open: bool) -> Element:
    lines = sum(len(hunk.lines) for hunk in file.hunks)
    label = _KINDS[file.kind]
    summary: list[Child] = [with_class("code", "path", file.name), " ", *_counts(file.added, file.removed)]
    if label or file.binary:
        summary += [" ", with_class("span", "tagged", "binary" if file.binary else label)]
    return fold(summary, _body(file, source, room, limits), is_open=is_open and lines <= limits.file_lines, kind="file")


def _body(file: FilePatch, source: str, room: _Room, limits: PageLimits) -> Iterator[Element]:
    if file.kind == "mode":
        yield with_class("p", "note", f"Its mode changes from {file.modes[0]} to {file.modes[1]}.")
    if file.binary:
        yield with_class("p", "note", f"A binary change of {size_words(file.size)} in the patch; it is not shown.")
        return
    allowed = min(limits.shown_lines, room.lines)
    room.files += 1
    shown = 0
    body = with_class("tbody", "code")
    language = language_of(file.path)
    for hunk in file.hunks:
        if shown >= allowed:
            break
        body.extend(_hunk(hunk, hunk.lines[: allowed - shown], language, room))
        shown += min(len(hunk.lines), allowed - shown)
    room.lines -= shown
    if shown:
        yield with_class("div", "scroll", with_class("table", "diff", body))
    left_out = sum(len(hunk.lines) for hunk in file.hunks) - shown
    if left_out:
        yield with_class("p", "cut", f"{left_out:,} more lines of this file are not shown; they are in {source}.")
    if not file.hunks and file.kind != "mode":
        yield with_class("p", "note", "No line changes: an empty file.")


def _hunk(hunk: Hunk, lines: list[PatchLine], language: str, room: _Room) -> Iterator[Element]:
    heading = hunk.heading.decode("utf-8", "backslashreplace")[:MOST_CHARACTERS]
    first = next((line.new or line.old for line in lines if line.new or line.old), 0)
    yield with_class("tr", "hunk", tag("td", {"colspan": "2"}, "⋯"), tag("td", None, f"line {first}  {heading}".rstrip()))
    old = iter(_sides(lines, "- ", language, room.colours))
    new = iter(_sides(lines, "+ ", language, room.colours))
    for line in lines:
        pieces: list[Piece]
        if line.sign == " ":
            next(old)
            pieces = next(new)
        elif line.sign == "-":
            pieces = next(old)
        elif line.sign == "+":
            pieces = next(new)
        else:
            pieces = [(_display_text(line), "c")]
        yield _line_element(line, pieces, room)


def _sides(lines: list[PatchLine], signs: str, language: str, colours: Colours) -> list[list[Piece]]:
    return colours.lines([_display_text(line) for line in lines if line.sign in signs], language)


def _display_text(line: PatchLine) -> str:
    text = line.text.decode("utf-8", "backslashreplace").replace("\r", "\\r")
    return (
        text
        if len(text) <= MOST_CHARACTERS
        else f"{text[:MOST_CHARACTERS]} … ({len(text) - MOST_CHARACTERS:,} more characters)"
    )


def _number(side: str, line: int | None, room: _Room) -> Element:
    """Return the cell of a line's number, with a link to itself if lines have ids."""
    if line is None or not room.ids:
        return with_class("td", "no", str(line) if line is not None else "")
    place = f"file-{room.files}-{side}-{line}"
    return tag("td", {"class": "no", "id": place}, tag("a", {"href": f"#{place}"}, str(line)))


def _line_element(line: PatchLine, pieces: list[Piece], room: _Room) -> Element:
    old, new = line.old if line.sign != "+" else None, line.new if line.sign != "-" else None
    kind = {"+": "ins", "-": "del"}.get(line.sign, "same")
    words = (with_class("span", name, text) if name else text for text, name in pieces)
    return with_class(
        "tr",
        kind,
        _number("old", old, room),
        _number("new", new, room),
        with_class("td", "src", with_class("span", "sign", line.sign if line.sign in "+-" else " "), words),
    )


# Thousands of changed files as a few lines: summed by folder, as deep as few enough of them allow. Pure.
#: Folders that a page lists; more are summed as the rest.
MOST_FOLDERS = 40
_DEEPEST = 8
#: With fewer folders, the list is not informative.
_TOO_FEW = 4


@dataclass(frozen=True, slots=True)
class Folder:
    """``path`` ends in ``/``, and is empty for files at the top; lines are those of the files that were read."""

    path: bytes
    files: int
    added: int
    removed: int


def sum_folders(files: Iterable[FilePatch], names: Iterable[bytes]) -> tuple[Folder, ...]:
    """The folders of all ``names``, most files first, with the lines of those ``files`` that are known."""
    counts = {file.path: (file.added, file.removed) for file in files}
    paths = sorted({*names, *counts})
    chosen = _group_paths(paths, 1)
    for depth in range(2, _DEEPEST + 1):
        deeper = _group_paths(paths, depth)
        if len(deeper) > MOST_FOLDERS:
            # Several siblings are more informative than their common folder.
            chosen = deeper if len(chosen) < _TOO_FEW else chosen
            break
        if len(deeper) > len(chosen):
            chosen = deeper
    folders = [_folder(folder, inside, counts) for folder, inside in chosen.items()]
    folders.sort(key=lambda each: (-each.files, each.path))
    return tuple(folders)


def _group_paths(paths: Iterable[bytes], depth: int) -> dict[bytes, list[bytes]]:
    groups: dict[bytes, list[bytes]] = {}
    for path in paths:
        parts = path.split(b"/")[:-1][:depth]
        groups.setdefault(b"".join(part + b"/" for part in parts), []).append(path)
    return groups


def _folder(path: bytes, inside: Sequence[bytes], counts: dict[bytes, tuple[int, int]]) -> Folder:
    lines = [counts[each] for each in inside if each in counts]
    return Folder(path, len(inside), sum(added for added, _ in lines), sum(removed for _, removed in lines))
