"""Rendering of pages: Jinja templates that escape everything, and the sections of a bundle's report on a run's page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, tostring

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from gatewright.app.console.change_browser import ChangeIndex, draw_change, line_places
from gatewright.app.report.account import BundleAccount
from gatewright.app.report.changes import PatchFile, changes
from gatewright.app.report.drawing import draw
from gatewright.app.report.limits import PageLimits
from gatewright.app.report.markup import with_class
from gatewright.app.report.verdicts import gates, reviews, tests
from gatewright.app.report.work import work
from gatewright.contracts import ReviewReport
from gatewright.contracts.activity import MOMENTARY
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory, ended_history
from gatewright.rules.approvals import request_digest
from gatewright.rules.transfers import transfer_lines
from gatewright.run.state import Run
from gatewright.run.states import STATE_NAMES
from gatewright.view.detail import RunDetail
from gatewright.view.merge_queue import ending_words, hold_words, position_words
from gatewright.view.rows import BoardRow
from gatewright.view.safe_text import duration_words, seconds_words, visible
from gatewright.work_documents.request_summary import change_words, gate_words, order_words, target_words, yes_words

STAGE_NAMES = {
    "running": "Running",
    "person": "Waiting for a person",
    "locks": "Waiting for locks",
    "landed": "Landed",
    "done": "Done",
    "failed": "Failed",
}
#: A page is looked at live: less of a change is shown than in a report, which has all day.
LIMITS = PageLimits(patch=1_000_000, all_lines=4_000, shown_lines=1_500, outputs=200_000, rows=200)
_NOWHERE = Path("/nonexistent")


def make_templates() -> Environment:
    """Return the template environment: it escapes all values, and spells out unprintable characters."""
    environment = Environment(
        loader=PackageLoader("gatewright.app.console"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_visible_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ago"] = _ago
    environment.filters["until"] = _until
    environment.filters["seconds"] = seconds_words
    environment.filters["moment"] = _moment
    environment.filters["typed"] = _typed_text
    environment.filters["digest"] = request_digest
    environment.filters["transfer_lines"] = lambda request: list(transfer_lines(request.transfers))
    environment.filters["state"] = lambda name: STATE_NAMES.get(name, name)
    environment.filters["ordered"] = order_words
    environment.filters["target_words"] = target_words
    environment.globals["yes_words"] = yes_words
    environment.filters["change_words"] = change_words
    environment.filters["gate_words"] = gate_words
    environment.filters["branch"] = lambda ref: ref.removeprefix("refs/heads/")
    environment.filters["order"] = lambda row: f"{row.created_at} {row.run_id}"
    environment.globals["stage_names"] = STAGE_NAMES
    environment.filters["hold_words"] = hold_words
    environment.filters["command"] = shlex.join
    environment.filters["ending_words"] = ending_words
    environment.filters["position_words"] = position_words
    environment.tests["momentary"] = lambda kind: kind in MOMENTARY
    return environment


def row_html(environment: Environment, row: BoardRow, now: datetime) -> str:
    """Return one row of the board."""
    return environment.get_template("row.html").render(row=row, now=now)


@dataclass(frozen=True, slots=True)
class RunSections:
    """The parts of a run's page that the report draws too.

    ``places``: by the name that votes and findings give a line of the change (``patch:PATH:LINE``), the id that it has here.
    """

    timeline: Markup
    work: Markup
    gates: Markup
    change: Markup
    review: Markup
    tests: Markup
    places: Mapping[str, str]
    #: Key of the shown change; empty if none is shown.
    change_key: str = ""


def sections_of(detail: RunDetail, account: BundleAccount | None, index: ChangeIndex | None, wanted: str = "") -> RunSections:
    """Return the sections of a run's page. ``account`` if the bundle is on this host; ``index``: the canonical change.

    ``wanted``: a filter of its files. A section without content is empty.
    """
    run, history = detail.run, _history(detail)
    known = account or BundleAccount(_NOWHERE, {}, {}, {}, detail.records, run, history, "")
    review_reports = dict(history.reviews) if history else {run.review.task_id or "": run.review} if run.review else {}
    test_reports = dict(history.tests) if history else {run.tests.task_id: run.tests} if run.tests else {}
    tree = run.candidate.tree if run.candidate is not None else None
    places = line_places(index, _anchors(run, review_reports.values()), LIMITS) if index is not None else {}
    return RunSections(
        timeline=as_markup([draw(detail.timeline)]),
        work=as_markup(work(run, history, LIMITS)) if run.contract is not None else Markup(),
        gates=as_markup(gates(detail.gates, run.run_id, LIMITS)) if detail.gates else Markup(),
        change=as_markup(_change_elements(known, run, index, wanted)),
        review=as_markup(reviews(review_reports, run.run_id, LIMITS, places, tree)) if review_reports else Markup(),
        tests=as_markup(tests(known, test_reports, run.run_id, LIMITS)) if test_reports else Markup(),
        places=places,
        change_key=index.key if index is not None else "",
    )


def _change_elements(known: BundleAccount, run: Run, index: ChangeIndex | None, wanted: str) -> Iterable[Element]:
    """The canonical change; where there is none, what workers handed over and the gates did not take."""
    if index is not None and index.size:
        return draw_change(index, run.run_id, wanted, LIMITS)
    if any(path.startswith("patches/") and size for path, size in known.files.items()):
        return changes(known, PatchFile(layout.PATCH, 0, 0, ()), LIMITS)
    if run.candidate is not None and index is None:
        return [with_class("p", "note", "This identity may not read the change. Read it with: gatewright approvals show RUN")]
    return ()


def _anchors(run: Run, review_reports: Iterable[ReviewReport]) -> Iterator[str]:
    """The lines of the change that votes and findings name."""
    for asked in run.approvals.values():
        yield from (anchor for cast in asked.votes for anchor in cast.vote.evidence)
    for report in review_reports:
        yield from (f"patch:{found.path}:{found.line}" for found in report.findings[: LIMITS.rows])


def _history(detail: RunDetail) -> RunHistory | None:
    if not detail.run.ended:
        return None
    try:
        return ended_history(detail.run, detail.records)
    except MalformedError:
        return None  # its page shows what the fold knows


def as_markup(elements: Iterable[Element]) -> Markup:
    """Elements as they are: the report's serialiser has escaped their text."""
    return Markup("".join(tostring(element, encoding="unicode", method="html") for element in elements))  # noqa: S704


def _typed_text(text: str) -> Markup:
    """Return a person's own text for its form field: escaped, otherwise unchanged."""
    return escape(text.replace("\r\n", "\n"))


def _visible_value(value: Any) -> Any:
    return visible(value) if type(value) is str else value


def _moment(text: str, now: datetime) -> str:
    """Return ``_ago`` for a time written by others; an invalid time is returned unchanged."""
    try:
        return _ago(text, now)
    except ValueError:
        return text


def _until(moment: str, now: datetime) -> str:
    """Return a future time for people; a past one as ``_ago`` formats it."""
    left = (datetime.fromisoformat(moment).astimezone(UTC) - now).total_seconds()
    return f"in {duration_words(left)}" if left > 0 else _ago(moment, now)


def _ago(moment: str, now: datetime) -> str:
    """A time for people, as the page's script writes it too."""
    if not moment:
        return ""
    return f"{duration_words((now - datetime.fromisoformat(moment).astimezone(UTC)).total_seconds())} ago"
