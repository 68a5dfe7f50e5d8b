"""Every file of the bundle, by folder, with its size and digest, and small ones as a link that the page itself holds."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gatewright.app.report.account import BundleAccount
from gatewright.app.report.limits import PageLimits
from gatewright.app.report.markup import Child, fold, tag, with_class
from gatewright.evidence import layout
from gatewright.view.safe_text import size_words


@dataclass
class _Room:
    bytes: int


def evidence_tree(account: BundleAccount, faulty: frozenset[str], limits: PageLimits) -> Iterator[Element]:
    """The section's content. ``faulty`` are paths that the verification found something wrong with."""
    folders: dict[str, list[str]] = {}
    for path in sorted({*account.files, *account.odd, *account.listed}):
        folders.setdefault(path.rpartition("/")[0].partition("/")[0], []).append(path)
    total = sum(account.files.values())
    yield with_class("p", "sum", f"{len(account.files)} files, {size_words(total)}. The digests are those of the manifest.")
    room = _Room(limits.links)
    for folder, paths in sorted(folders.items()):
        rows = [_row(account, path, faulty, room, limits) for path in paths[: limits.rows]]
        body: list[Child] = [with_class("div", "scroll", with_class("table", "files", tag("tbody", None, rows)))]
        if len(paths) > limits.rows:
            body.append(with_class("p", "cut", f"{len(paths) - limits.rows} more files are not listed here."))
        if not folder:
            yield from (each for each in body if isinstance(each, Element))
            continue
        size = sum(account.files.get(path, 0) for path in paths)
        count = with_class("span", "meta", f"{len(paths)} · {size_words(size)}")
        summary: list[Child] = [with_class("code", "path", f"{folder}/"), " ", count]
        yield fold(summary, body, kind="folder", is_open=any(path in faulty for path in paths))


def _row(account: BundleAccount, path: str, faulty: frozenset[str], room: _Room, limits: PageLimits) -> Element:
    size = account.files.get(path)
    record = account.listed.get(path)
    digest = record.sha256 if record else "not in the manifest" if path not in layout.UNLISTED else ""
    what = size_words(size) if size is not None else account.odd.get(path, "missing").replace("_", " ")
    return with_class(
        "tr",
        "faulty" if path in faulty else "file",
        with_class("td", "path", _name(account, path, room, limits)),
        with_class("td", "size", what),
        with_class("td", "digest", tag("code", None, digest)),
    )


def _name(account: BundleAccount, path: str, room: _Room, limits: PageLimits) -> Element:
    size = account.files.get(path)
    name = with_class("code", "path", path)
    if not size or size > min(limits.link, room.bytes):
        return name
    data = account.excerpt(path, limits.link).head
    room.bytes -= len(data)
    link = f"data:application/octet-stream;base64,{base64.b64encode(data).decode('ascii')}"
    return tag("a", {"href": link, "download": path.rpartition("/")[2], "title": "Save this file"}, name)
