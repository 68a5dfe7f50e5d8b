"""The timeline as inline SVG: one drawing a row, in percent of the width, so that it fits any screen without a script."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from gatewright.app.report.markup import tag, with_class
from gatewright.view.safe_text import seconds_words
from gatewright.view.timeline import Mark, Row, Timeline, TimelineSpan

#: More tasks than this are counted, not drawn.
MOST_ROWS = 60
_HEIGHT = 18
_MIDDLE = _HEIGHT / 2


def draw(timeline: Timeline) -> Element:
    """The whole drawing: a row for every state and task, the axis below."""
    total = timeline.seconds or 1.0
    rows = [_row(row, timeline, total) for row in timeline.rows[:MOST_ROWS]]
    more = len(timeline.rows) - MOST_ROWS
    left_out = with_class("p", "note", f"{more} more tasks are not drawn.") if more > 0 else None
    return with_class("div", "timeline", rows, _axis(timeline, total), left_out)


def _row(row: Row, timeline: Timeline, total: float) -> Element:
    drawing = _svg(f"{row.name}: {seconds_words(row.seconds)}")
    drawing.append(tag("line", {"class": "rail", "x1": "0", "x2": "100%", "y1": str(_MIDDLE), "y2": str(_MIDDLE)}))
    for at in timeline.attempts:
        drawing.append(tag("line", {"class": "attempt", "x1": _at(at, total), "x2": _at(at, total), "y1": "0", "y2": "100%"}))
    for span in row.spans:
        drawing.append(_bar(span, row, total))
    for mark in row.marks:
        drawing.append(_mark(mark, total))
    took = seconds_words(row.seconds) if row.seconds else ""
    return with_class(
        "div", f"row {row.kind}", with_class("span", "label", row.name), drawing, with_class("span", "took", took)
    )


def _bar(span: TimelineSpan, row: Row, total: float) -> Element:
    thick = 8 if row.kind == "state" else 6
    # An instant still has to be seen.
    width = max((span.end - span.start) / total * 100, 0.35)
    start = min(span.start / total * 100, 100 - width)
    words = f"{row.name}, attempt {span.attempt}: {seconds_words(span.end - span.start)}, from {seconds_words(span.start)}"
    attributes = {
        "class": f"bar {span.ending}",
        "x": f"{start:.3f}%",
        "width": f"{width:.3f}%",
        "y": str(_MIDDLE - thick / 2),
        "height": str(thick),
        "rx": "2",
    }
    return tag("rect", attributes, tag("title", None, words))


def _mark(mark: Mark, total: float) -> Element:
    words = f"{mark.gate} gate: {'passed' if mark.passed else mark.code}, at {seconds_words(mark.at)}"
    place = f"{min(max(mark.at / total * 100, 0.5), 99.5):.3f}%"
    if mark.passed:
        attributes = {"class": "mark good", "cx": place, "cy": str(_MIDDLE), "r": "3.5"}
        return tag("circle", attributes, tag("title", None, words))
    # Not by colour alone: a refusal is a tall bar, a pass a dot.
    attributes = {"class": "mark bad", "x1": place, "x2": place, "y1": "1", "y2": str(_HEIGHT - 1)}
    return tag("line", attributes, tag("title", None, words))


def _axis(timeline: Timeline, total: float) -> Element:
    drawing = _svg("seconds since the run was accepted")
    for part in range(5):
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        attributes = {"class": "tick", "x": f"{part * 25}%", "y": "13", "text-anchor": anchor}
        drawing.append(tag("text", attributes, seconds_words(total * part / 4) if part else "0"))
    rounds = len(timeline.attempts)
    words = f"{rounds + 1} attempts; a dashed line is where the next one was ordered" if rounds else ""
    return with_class("div", "row axis", with_class("span", "label", ""), drawing, with_class("span", "took", ""), _note(words))


def _note(words: str) -> Element | None:
    return with_class("span", "note", words) if words else None


def _svg(words: str) -> Element:
    return tag("svg", {"width": "100%", "height": str(_HEIGHT), "role": "img", "aria-label": words})


def _at(seconds: float, total: float) -> str:
    return f"{seconds / total * 100:.3f}%"
