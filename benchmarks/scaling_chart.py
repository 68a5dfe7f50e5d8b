"""Draws what ``scaling`` and ``growth`` measured, as SVG: lines over what they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 460, 280, 52, 34, 26, 62
_COLUMNS = 3
#: Pixels between the middles of two marks, so that both can be read.
_APART = 44
_COLOURS = ("#0b6e4f", "#b5541c", "#3355aa")


@dataclass(frozen=True)
class Panel:
    """Lines by name, each of (x, y). ``goal`` is a level that is marked.

    x is drawn in powers of two; with ``straight`` as it is, so that what grows with it is a straight line.
    """

    title: str
    x_title: str
    lines: Mapping[str, Sequence[tuple[int, float]]]
    top: float
    unit: str = ""
    goal: float | None = None
    straight: bool = False


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Write the panels side by side, three in a row."""
    columns = min(_COLUMNS, len(panels))
    size = {"width": str(_WIDTH * columns), "height": str(_HEIGHT * -(-len(panels) // columns))}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": "sans-serif", "font-size": "11"})
    SubElement(root, "rect", {**size, "fill": "white"})
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        _panel(SubElement(root, "g", {"transform": f"translate({column * _WIDTH} {row * _HEIGHT})"}), panel)
    path.write_bytes(tostring(root, xml_declaration=True, encoding="utf-8"))


def _panel(group: Element, panel: Panel) -> None:
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    marks = sorted({x for line in panel.lines.values() for x, _ in line})

    def across(x: float) -> float:
        part = x / marks[-1] if panel.straight else math.log2(x / marks[0]) / (math.log2(marks[-1] / marks[0]) or 1.0)
        return _LEFT + part * (right - _LEFT)

    def up(y: float) -> float:
        return floor - min(y, panel.top) / panel.top * (floor - _TOP)

    _text(group, _LEFT, 18, panel.title, weight="bold")
    for part in range(5):
        level = panel.top * part / 4
        _line(group, [(_LEFT, up(level)), (right, up(level))], "#dddddd")
        _text(group, _LEFT - 6, up(level) + 4, f"{level:g}{panel.unit}", anchor="end")
    written = math.inf
    for x in reversed(marks):
        if written - across(x) >= _APART or not panel.straight:
            written = across(x)
            _text(group, written, floor + 16, f"{x:,}", anchor="middle")
    _text(group, (_LEFT + right) / 2, floor + 32, panel.x_title, anchor="middle")
    if panel.goal is not None:
        _line(group, [(_LEFT, up(panel.goal)), (right, up(panel.goal))], "#888888", dash="4 3")
    for number, (name, line) in enumerate(panel.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        _line(group, [(across(x), up(y)) for x, y in line], colour, width="2")
        for x, y in line if panel.straight else ():
            SubElement(group, "circle", {"cx": f"{across(x):.1f}", "cy": f"{up(y):.1f}", "r": "3", "fill": colour})
        _text(group, _LEFT + number * 200, floor + 52, f"● {name}", fill=colour)


def _line(group: Element, points: Sequence[tuple[float, float]], colour: str, *, width: str = "1", dash: str = "") -> None:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    attributes = {"points": drawn, "fill": "none", "stroke": colour, "stroke-width": width}
    SubElement(group, "polyline", attributes | ({"stroke-dasharray": dash} if dash else {}))


def _text(
    group: Element, x: float, y: float, words: str, *, anchor: str = "start", fill: str = "#222222", weight: str = ""
) -> None:
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "fill": fill}
    SubElement(group, "text", attributes | ({"font-weight": weight} if weight else {})).text = words
