"""The change of a run for the people who decide: a tree of its files, with the lines of each on request.

Pure, and bounded for changes of any size: lists and pages have limits, and a page names what it leaves out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from gatewright.app.report.changes import MINUS, file_lines
from gatewright.app.report.limits import PageLimits, clip_text
from gatewright.app.report.markup import Child, fold, tag, with_class
from gatewright.app.report.patch import FilePatch, FileSpan, parse_patch, split_patch
from gatewright.view.safe_text import size_words

#: Bytes of a change that are looked at, and of changes that are remembered.
MOST_PATCH: Final = 32_000_000
MOST_REMEMBERED: Final = 64_000_000
#: Maximum number of listed files; a filter shows others.
MOST_LISTED: Final = 2_500
#: Maximum number of files whose lines are in the page from the start, and of all their lines.
FEW_FILES: Final = 12
FEW_LINES: Final = 1_500
#: Characters of a name in the list, and of a filter.
MOST_NAME: Final = 300
MOST_FILTER: Final = 200
#: Folders in one another that are drawn as such.
_DEEPEST: Final = 12
_KINDS: Final = {"added": "new", "deleted": "deleted", "modified": "", "mode": "mode"}


@dataclass(frozen=True, slots=True)
class ChangeIndex:
    """A change and the positions of its files. ``key`` is the digest of its bytes; ``size`` is its full size, read or not."""

    key: str
    data: bytes
    size: int
    files: tuple[FileSpan, ...]

    @property
    def whole(self) -> bool:
        """Return whether all of it was read."""
        return len(self.data) == self.size

    @property
    def is_small(self) -> bool:
        """Return whether all its lines are in the page from the start."""
        return len(self.files) <= FEW_FILES and sum(each.added + each.removed for each in self.files) <= FEW_LINES

    def file(self, number: int) -> FilePatch:
        """File ``number``, from 1, taken apart."""
        span = self.files[number - 1]
        return parse_patch(self.data[span.start : span.end])[0]


@dataclass(slots=True)
class _Folder:
    folders: dict[str, _Folder] = field(default_factory=dict)
    files: list[tuple[int, str, FileSpan]] = field(default_factory=list)


def index_change(data: bytes, size: int) -> ChangeIndex:
    """``data``: what was read of a canonical patch of ``size`` bytes."""
    read = data[:MOST_PATCH]
    return ChangeIndex(hashlib.sha256(read).hexdigest()[:16], read, size, split_patch(read))


def file_address(run_id: str, index: ChangeIndex, number: int, **query: object) -> str:
    """Return the address of a file's lines, for exactly this change."""
    return f"/runs/{run_id}/files/{number}?{urlencode({'change': index.key, **query})}"


def draw_change(index: ChangeIndex, run_id: str, wanted: str, limits: PageLimits) -> Iterator[Element]:
    """Yield the size of the change, a filter, and the tree of the files that match the filter ``wanted``."""
    files = index.files
    added, removed = sum(each.added for each in files), sum(each.removed for each in files)
    counts = (f"{len(files):,} file{'' if len(files) == 1 else 's'}, ", *_counts(added, removed))
    yield with_class("p", "sum", *counts, "" if index.whole else " so far")
    if not index.whole:
        words = f"The change has {size_words(index.size)}; the first {size_words(len(index.data))} of it are shown here. "
        yield with_class("p", "cut", f"{words}Read all of it with: gatewright approvals show {run_id}")
    if len(files) > FEW_FILES:
        yield _filter(run_id, index, wanted)
    yield tag("div", {"id": "file-tree"}, draw_tree(index, run_id, wanted, limits))


def draw_tree(index: ChangeIndex, run_id: str, wanted: str, limits: PageLimits) -> Iterator[Element]:
    """The files that the filter lets through, in their folders; those of a small change with their lines."""
    words = wanted[:MOST_FILTER].casefold().split()
    names = [(number, span.name, span) for number, span in enumerate(index.files, 1)]
    found = [each for each in names if all(word in each[1].casefold() for word in words)]
    listed = found[:MOST_LISTED]
    if words or len(found) > len(listed):
        shown = f"{len(listed):,} of {len(index.files):,} files are listed"
        more = f"; {len(found) - len(listed):,} more match: filter by a folder or a name" if len(found) > len(listed) else ""
        yield tag("p", {"class": "cut" if more else "meta", "id": "files-shown"}, f"{shown}{more}.")
    if index.is_small:
        yield from (_file(each, index, run_id, limits) for each in listed)
        return
    top = _Folder()
    for number, name, span in listed:
        *folders, last = name.split("/", _DEEPEST)
        place = top
        for folder in folders:
            place = place.folders.setdefault(folder, _Folder())
        place.files.append((number, last, span))
    yield from _inside(top, index, run_id, limits)


def draw_file(index: ChangeIndex, run_id: str, number: int, skipped: int, limits: PageLimits) -> Iterator[Element]:
    """Return the first lines of one file, up to the limit, and the address of the next ones."""
    file = index.file(number)
    lines = sum(len(hunk.lines) for hunk in file.hunks)
    shown = PageLimits(shown_lines=limits.shown_lines, all_lines=limits.shown_lines)
    drawn = [each for each in file_lines(file, number, "the change", shown, skipped) if each.get("class") != "cut"]
    yield from drawn
    following = skipped + limits.shown_lines
    if lines > following and not file.binary:
        words = f"Show the next {min(limits.shown_lines, lines - following):,} of {lines - following:,} more lines"
        address = file_address(run_id, index, number, **{"from": following})
        yield with_class("p", "more", tag("a", {"href": address, "data-more": "yes"}, words))


def line_places(index: ChangeIndex, anchors: Iterable[str], limits: PageLimits) -> dict[str, str]:
    """Return element ids by line name (``patch:PATH:LINE``, used in votes and findings), for lines that the change shows."""
    wanted: dict[str, set[tuple[str, str]]] = {}
    for anchor in anchors:
        path, _, line = anchor.removeprefix("patch:").rpartition(":")
        if anchor.startswith("patch:") and path:
            wanted.setdefault(path, set()).add((anchor, line))
    places: dict[str, str] = {}
    for number, span in enumerate(index.files, 1):
        path = span.path.decode("utf-8", "surrogateescape")
        if path not in wanted:
            continue
        shown = [line for hunk in index.file(number).hunks for line in hunk.lines][: limits.shown_lines]
        ids = {f"-{line.old}": f"file-{number}-old-{line.old}" for line in shown if line.sign != "+" and line.old is not None}
        ids |= {f"{line.new}": f"file-{number}-new-{line.new}" for line in shown if line.sign != "-" and line.new is not None}
        places.update((anchor, ids[line]) for anchor, line in wanted[path] if line in ids)
    return places


def _inside(folder: _Folder, index: ChangeIndex, run_id: str, limits: PageLimits) -> Iterator[Element]:
    for name, each in sorted(folder.folders.items()):
        label, inner = name, each
        while len(inner.folders) == 1 and not inner.files:  # a chain of folders is one line
            ((further, inner),) = inner.folders.items()
            label = f"{label}/{further}"
        spans = list(_spans(inner))
        count = f" {len(spans):,} file{'' if len(spans) == 1 else 's'} "
        counts = _counts(sum(span.added for span in spans), sum(span.removed for span in spans))
        summary: list[Child] = [
            with_class("code", "path", f"{clip_text(label, MOST_NAME)}/"),
            with_class("span", "meta", count),
            *counts,
        ]
        yield fold(summary, _inside(inner, index, run_id, limits), is_open=True, kind="folder")
    yield from (_file(each, index, run_id, limits) for each in folder.files)


def _spans(folder: _Folder) -> Iterator[FileSpan]:
    yield from (span for _, _, span in folder.files)
    for each in folder.folders.values():
        yield from _spans(each)


def _file(listed: tuple[int, str, FileSpan], index: ChangeIndex, run_id: str, limits: PageLimits) -> Element:
    """Return a list entry. It includes the lines if the change is small; otherwise a script loads them."""
    number, name, span = listed
    label = "binary" if span.binary else _KINDS[span.kind]
    summary: Sequence[Child] = (
        with_class("code", "path", clip_text(name, MOST_NAME)),
        " ",
        *_counts(span.added, span.removed),
        *((" ", with_class("span", "tagged", label)) if label else ()),
    )
    if index.is_small:
        drawn = fold(summary, draw_file(index, run_id, number, 0, limits), is_open=True, kind="file")
    else:
        address = file_address(run_id, index, number)
        link = with_class("p", "meta", tag("a", {"href": address}, "Show the lines of this file"))
        drawn = fold(summary, link, kind="file")
        drawn.set("data-part", address)
    drawn.set("id", f"file-{number}")
    return drawn


def _filter(run_id: str, index: ChangeIndex, wanted: str) -> Element:
    field_ = tag("input", {"type": "search", "name": "match", "value": wanted, "maxlength": str(MOST_FILTER)})
    field_.set("data-files", f"/runs/{run_id}/files?{urlencode({'change': index.key})}")
    attributes = {"class": "filter-files", "method": "get", "action": f"/runs/{run_id}#change", "role": "search"}
    attributes["aria-label"] = "Filter files"
    label = tag("label", None, "Filter files ", field_)
    status = tag("span", {"id": "files-status", "class": "meta", "role": "status"})
    return tag("form", attributes, label, " ", tag("button", None, "Filter"), " ", status)


def _counts(added: int, removed: int) -> tuple[Element, str, Element]:
    return with_class("span", "plus", f"+{added}"), " ", with_class("span", "minus", f"{MINUS}{removed}")
