"""HTML made of elements, never of strings: the serialiser escapes all text and attributes.

Markup cannot be passed through. Everything shown goes through ``visible``, so that no control character and no
bidirectional mark of a bundle reaches the reader's browser.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from gatewright.view.safe_text import visible

Child = Element | str | None


def tag(name: str, attributes: dict[str, str] | None = None, *children: Child | Iterable[Child]) -> Element:
    """Return an element. ``children`` are elements, text, iterables of them, or None for nothing."""
    element = Element(name, {key: visible(value) for key, value in (attributes or {}).items()})
    for child in children:
        if child is None or isinstance(child, str | Element):
            _add(element, child)
        else:
            for each in child:
                _add(element, each)
    return element


def with_class(name: str, kind: str, *children: Child | Iterable[Child]) -> Element:
    """An element with a class."""
    return tag(name, {"class": kind}, *children)


def table(kind: str, rows: Iterable[Iterable[Child]]) -> Element:
    """A table of cells; it scrolls by itself where the screen is too narrow."""
    body = tag("tbody", None, (tag("tr", None, (tag("td", None, cell) for cell in row)) for row in rows))
    return with_class("div", "scroll", with_class("table", kind, body))


def with_spaces(children: Iterable[Child]) -> list[Child]:
    """The children with a space between them, so that a line may break there."""
    return [each for child in children if child is not None for each in (child, " ")]


def fold(summary: Iterable[Child] | str, *content: Child | Iterable[Child], is_open: bool = False, kind: str = "") -> Element:
    """Something that can be opened and closed without a script."""
    attributes = {"class": kind} if kind else {}
    if is_open:
        attributes["open"] = "open"
    words = (summary,) if isinstance(summary, str) else summary
    return tag("details", attributes, tag("summary", None, words), *content)


def document(head: Iterable[Element], body: Iterable[Child], css: str) -> bytes:
    """Return a complete page. ``css`` must be our own: it is the one text that is not escaped."""
    page = tag("html", {"lang": "en"})
    top = SubElement(page, "head")
    for element in head:
        top.append(element)
    style = SubElement(top, "style")
    style.text = css
    page.append(tag("body", None, body))
    written: bytes = tostring(page, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + written + b"\n"


def _add(element: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        element.append(child)
        return
    text = visible(child)
    if len(element):
        last = element[-1]
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text
