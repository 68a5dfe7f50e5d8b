"""A run as one HTML page: its outcome, whether it is proved, and all its evidence. No network, no script.

The page itself proves nothing. It begins with the outcome of the verification made just before.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from xml.etree.ElementTree import Element

from gatewright.app.report.account import BundleAccount
from gatewright.app.report.changes import MINUS, PatchFile, change_of, changes
from gatewright.app.report.drawing import draw
from gatewright.app.report.limits import PageLimits, clip_text
from gatewright.app.report.markup import Child, document, fold, table, tag, with_class
from gatewright.app.report.verdicts import done, done_words, gates, reviews, tests
from gatewright.app.report.work import reconciliation_table, work
from gatewright.evidence import layout
from gatewright.evidence.projection.completion import completion_report
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.verification.findings import Verification
from gatewright.reasons import advice_for
from gatewright.run.state import Run
from gatewright.view.safe_text import one_line, seconds_words, size_words
from gatewright.view.timeline import Timeline, timeline_of

#: Findings of the verification beyond these are counted.
MOST_FINDINGS = 50
SECTIONS = ("Timeline", "Work", "Gates", "Change", "Review", "Tests", "Done", "Evidence")
_OUTCOMES = {
    "malformed": "Malformed: this does not have the form of a bundle",
    "not_verified": "Not verified: the checks found faults",
    "incomplete": "Incomplete: a part of the bundle is missing",
}


@dataclass(frozen=True, slots=True)
class Material:
    """The input of a page."""

    account: BundleAccount
    verification: Verification
    generator: str
    limits: PageLimits = field(default_factory=PageLimits)
    #: A description of the signing key's owner: this host, a pinned key, and so on.
    whose: str = ""


def render(material: Material) -> bytes:
    """Return the page in UTF-8, identical for the same bundle, verification and generator. Never raises because of the
    bundle."""
    account = material.account
    run_id = account.run.run_id if account.run else account.folder.name
    css = _css()
    return document(_head(f"{run_id} — Gatewright", css), _body(material), css)


def _head(title: str, css: str) -> Iterator[Element]:
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode("ascii")
    # Nothing may be fetched or run, even if a defect let markup through; only this very style sheet applies.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield tag("meta", {"charset": "utf-8"})
    yield tag("meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    yield tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    yield tag("meta", {"name": "color-scheme", "content": "light dark"})
    yield tag("meta", {"name": "referrer", "content": "no-referrer"})
    yield tag("title", None, one_line(title))


def _body(material: Material) -> Iterator[Child]:
    account, limits = material.account, material.limits
    candidate = change_of(account, layout.PATCH, limits)
    timeline = timeline_of(account.records, account.run.run_id if account.run else "")
    yield _proof(material.verification, material.whose)
    yield _header(material, timeline, candidate)
    yield tag("nav", {"aria-label": "Sections"}, (tag("a", {"href": f"#{name.lower()}"}, name) for name in SECTIONS))
    run_id = account.run.run_id if account.run else ""
    history = account.history
    if account.trouble:
        yield with_class("p", "cut", f"Shown up to the last valid event: {account.trouble}.")
    yield _section(
        "Timeline", [draw(timeline), _legend()] if timeline.rows else [with_class("p", "note", "There are no events.")]
    )
    yield _section(
        "Work", [*work(account.run, history, limits), *reconciliation_table(account)] if account.run else _not_ended()
    )
    gate_reports = history.gates if history else ()
    yield _section("Gates", gates(gate_reports, run_id, limits) if history else _not_ended())
    yield _section("Change", changes(account, candidate, limits))
    yield _section("Review", reviews(dict(history.reviews), run_id, limits) if history else _not_ended())
    yield _section("Tests", tests(account, dict(history.tests), run_id, limits) if history else _not_ended())
    checks = completion_report(history).checks if history else ()
    yield _section("Done", done(checks, limits) if history else _not_ended())
    faulty = frozenset(finding.path for finding in material.verification.findings if finding.path)
    yield _section("Evidence", evidence_tree(account, faulty, limits))
    yield with_class("footer", "foot", material.generator)


def _section(title: str, content: Iterator[Element] | list[Element]) -> Element:
    return tag("section", {"id": title.lower()}, tag("h2", None, title), content)


def _not_ended() -> Iterator[Element]:
    yield with_class("p", "note", "This bundle does not show an end of the run.")


def _proof(result: Verification, whose: str) -> Element:
    """The outcome of the verification, on top: one quiet line when all is well, loud when it is not."""
    checks = fold(
        "Checks and limits",
        tag("p", None, "Checked: ", ", ".join(words.partition(" ")[2] or words for words in result.checked), "."),
        tag("p", None, "A bundle alone cannot prove:"),
        tag("ul", None, (tag("li", None, words) for words in result.unchecked[:MOST_FINDINGS])),
        tag(
            "p",
            None,
            "This page itself is not signed. To be sure, run ",
            tag("code", None, "gatewright verify"),
            " on the bundle.",
        ),
        kind="quiet",
    )
    if result.ok:
        words = f" All {result.files} files match the signature of key "
        sure = tag(
            "p",
            None,
            tag("b", None, "Verified."),
            words,
            with_class("code", "key", result.signer),
            f" ({whose})." if whose else ".",
        )
        return with_class("aside", "proof ok", sure, checks)
    found = (
        (with_class("code", "reason", f.code), with_class("code", "path", f.path or "the bundle"), clip_text(f.message, 500))
        for f in result.findings[:MOST_FINDINGS]
    )
    more = len(result.findings) - MOST_FINDINGS
    return tag(
        "aside",
        {"class": "proof broken", "role": "alert"},
        with_class("p", "loud", _OUTCOMES.get(result.outcome, result.outcome)),
        tag("p", None, "What follows is what the bundle claims. Do not rely on it."),
        table("violations", found),
        with_class("p", "cut", f"{more} more findings are not listed.") if more > 0 else None,
        checks,
    )


def _header(material: Material, timeline: Timeline, change: PatchFile) -> Element:
    run = material.account.run
    if run is None:
        return tag("header", None, with_class("p", "verdict bad", "Unreadable"), tag("h1", None, material.account.folder.name))
    verdict, kind = _verdict(run)
    if not material.verification.ok:
        verdict, kind = f"Claims: {verdict.lower()}", "doubtful"
    why = None
    if run.failure is not None:
        why = with_class("p", "why", with_class("code", "reason", run.failure.code), " ", clip_text(run.failure.message, 1_000))
    return tag(
        "header",
        None,
        with_class("p", f"verdict {kind}", verdict),
        tag("h1", None, clip_text(one_line(run.accepted.user_request), 400)),
        why,
        _what_now(run),
        _facts(run, material.account.history, timeline, change),
    )


def _what_now(run: Run) -> Element | None:
    """Return advice for an unsuccessful run: that nothing landed, and what to do."""
    if run.failure is None or run.landed is not None:
        return None
    advice = advice_for(run.failure.code)
    return with_class(
        "p",
        "now",
        tag("b", None, "Nothing landed." if run.kind.lands else "The run failed."),
        f" What to do: {advice}." if advice else "",
    )


def _verdict(run: Run) -> tuple[str, str]:
    match run.status:
        case "SUCCESS" if not run.kind.lands:
            return run.kind.success.capitalize(), "good"
        case "SUCCESS":
            return ("Landed" if run.landed and run.landed.ref else "Proved, not landed"), "good"
        case "FAILED":
            return "Refused", "bad"
        case "ABORTED":
            return "Aborted", "bad"
        case _:
            return "Still open", "open"


def _facts(run: Run, history: RunHistory | None, timeline: Timeline, change: PatchFile) -> Element:
    accepted, landed = run.accepted, run.landed
    added, removed = sum(file.added for file in change.files), sum(file.removed for file in change.files)
    noun = "file" if change.count == 1 else "files"
    lines = f"+{added} {MINUS}{removed}{'' if change.whole else ' in what was read'}"
    count = f"{change.count:,} {noun}, {lines}" if change.files else "none"
    facts: list[tuple[str, str, bool]] = [("Run", run.run_id, True), ("Repository", accepted.repository_url, True)]
    facts += [] if run.kind.lands else [("Kind", run.kind.name, False)]
    facts.append(("Started from", accepted.baseline_commit or "no commit", True))
    if landed and landed.ref:
        facts += [("Landed on", landed.ref, True), ("As commit", landed.commit, True)]
    facts.append(("Change", count, False))
    facts.append(("Took", f"{seconds_words(timeline.seconds)}, {run.attempt} attempt{'s' if run.attempt != 1 else ''}", False))
    facts.append(("Requested by", accepted.requested_by, False))
    facts.append(("Accepted", run.created_at, False))
    if history is not None and run.kind.lands:
        facts.append(("Definition of done", done_words(completion_report(history).checks), False))
    if run.contract is not None and run.contract.allowed_paths:
        facts.append(("May change", clip_text(", ".join(run.contract.allowed_paths), 600), True))
    pairs = (
        with_class("div", "fact", tag("dt", None, name), tag("dd", None, tag("code", None, value) if is_code else value))
        for name, value, is_code in facts
    )
    return with_class("dl", "facts", pairs)


def _legend() -> Element:
    return with_class(
        "p",
        "note legend",
        tag("span", None, with_class("span", "key-good", "●"), " a gate that passed"),
        tag("span", None, with_class("span", "key-bad", "┃"), " a gate that refused"),
        tag("span", None, "Grey bars ended well, red ones did not, dashed ones did not end."),
    )


@cache
def _css() -> str:
    return files("gatewright.app.report").joinpath("page.css").read_text("utf-8")


# Every file of the bundle, by folder, with its size and digest; small ones as a link to a copy inside the page.
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
        with_class("td", "path", _file_element(account, path, room, limits)),
        with_class("td", "size", what),
        with_class("td", "digest", tag("code", None, digest)),
    )


def _file_element(account: BundleAccount, path: str, room: _Room, limits: PageLimits) -> Element:
    size = account.files.get(path)
    name = with_class("code", "path", path)
    if not size or size > min(limits.link, room.bytes):
        return name
    data = account.excerpt(path, limits.link).head
    room.bytes -= len(data)
    link = f"data:application/octet-stream;base64,{base64.b64encode(data).decode('ascii')}"
    return tag("a", {"href": link, "download": path.rpartition("/")[2], "title": "Save this file"}, name)
