"""A trace as a picture: one line a span, below its parent, as long as it took. The times are those of the spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, LEFT, LINE, TOP = 1000, 330, 18, 40
_COLOURS = {"run": "#334155", "S": "#64748b", "gate": "#b45309", "task": "#2563eb", "send": "#94a3b8", "process": "#0d9488"}
_CALL = "#9333ea"


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """``start`` and ``end`` in nanoseconds."""

    name: str
    span_id: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, Any]


def drawn(spans: Sequence[DrawnSpan]) -> str:
    """The SVG."""
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    scale = (WIDTH - LEFT - 70) / max(end - begin, 1)
    lines = list(_in_order(spans))
    height = TOP + LINE * len(lines) + 10
    drawing = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="20" font-size="13">One run, {(end - begin) / 1e9:.2f} s, {len(lines)} spans</text>',
    ]
    for number, (depth, span) in enumerate(lines):
        y = TOP + LINE * number
        x, width = LEFT + (span.start - begin) * scale, max((span.end - span.start) * scale, 1.5)
        took = (span.end - span.start) / 1e6
        drawing += [
            f'<text x="{8 + 12 * depth}" y="{y + 11}">{escape(_short(span.name))}</text>',
            f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="11" rx="2" fill="{_colour(span.name)}"/>',
            f'<text x="{x + width + 4:.1f}" y="{y + 11}" fill="#475569" font-size="9">{took:.0f} ms</text>',
        ]
    return "\n".join([*drawing, "</svg>", ""])


def _in_order(spans: Sequence[DrawnSpan]) -> Iterable[tuple[int, DrawnSpan]]:
    """Parents before children, each with how deep it lies; siblings by time."""
    known = {span.span_id for span in spans}
    below: dict[str, list[DrawnSpan]] = {}
    for span in sorted(spans, key=lambda each: (each.start, each.end)):
        below.setdefault(span.parent if span.parent in known else "", []).append(span)
    waiting = [(0, span) for span in reversed(below.get("", []))]
    while waiting:
        depth, span = waiting.pop()
        yield depth, span
        waiting += [(depth + 1, child) for child in reversed(below.get(span.span_id, []))]


def _short(name: str) -> str:
    return name.partition(" run-")[0].removesuffix(".default")


def _colour(name: str) -> str:
    word = name.partition(" ")[0]
    return _COLOURS.get(word) or (_COLOURS["S"] if word[:1] == "S" and word[1:].isdigit() else _CALL)
