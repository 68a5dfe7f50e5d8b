"""What a forge should show about a run: a change request, checks on exact commits, one comment. Pure.

A check is ``success`` on a commit if and only if the ledger has a run with a sealed bundle that landed this commit on a
branch, or that judged it as the head of a change request. A run judges a head if this process ordered it: the tests of another
publisher's run can be other ones than those of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.app.forge.port import Check, CheckState
from gatewright.app.forge.text import join_bounded, marker_of, quote, safe_title, span
from gatewright.contracts import GateReport, TestReport
from gatewright.contracts.forge_policy import ForgeEntry
from gatewright.errors import MalformedError
from gatewright.git.access.repository_patterns import RepositoryAddress, place_of
from gatewright.git.refs import is_object_id
from gatewright.reasons import advice_for, family_of
from gatewright.rules.approvals import pending
from gatewright.rules.people.delegations import holders
from gatewright.rules.reports.tests import passed
from gatewright.run.history import FollowedRun
from gatewright.run.state import Run
from gatewright.view.rows import BoardRow, judged_branch
from gatewright.view.safe_text import fit
from gatewright.work_documents.request_summary import change_size

_HEADS: Final = "refs/heads/"
_MOST_SUMMARY: Final = 140
#: Gates, commands and open requests that a comment names one by one.
_MOST_NAMED: Final = 20
MERGED_ELSEWHERE: Final = "merged_elsewhere"
_ALARM: Final = f"**Alarm `{MERGED_ELSEWHERE}`:**"


@dataclass(frozen=True, slots=True)
class WantedRequest:
    """The change request that a run needs. It is found by its branches, and opened once."""

    head_branch: str
    base: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the forge should show about one run.

    ``number``: the change request that the run judges. ``request``: the one to find or open; None for both: none. ``commit`` is
    the exact commit that the run landed or judged, ``tree`` the judged tree. ``checks``: by commit. ``merge``: the forge merges
    the request, if its head is ``commit``. ``close``: the gatekeeper has landed the change on the target. ``compare``: the tree
    that the forge merged must be ``tree``. ``newest``: no later run judges the same request.
    """

    run_id: str
    marker: str
    comment: str
    checks: Mapping[str, Check]
    commit: str = ""
    tree: str = ""
    number: int | None = None
    request: WantedRequest | None = None
    merge: bool = False
    close: bool = False
    compare: bool = False
    newest: bool = True


@dataclass(frozen=True, slots=True)
class ForgeView:
    """The runs of one entry. ``publisher``: whose runs judge change requests. ``console``: address of the live page, or
    empty."""

    entry: ForgeEntry
    rows: tuple[BoardRow, ...]
    publisher: str
    console: str = ""

    def check(self, commit: str) -> Check | None:
        """Return the check of a commit; None if no run is about it.

        A proven commit stays proven after other runs about it. Otherwise the newest run decides.
        """
        about = [row for row in self.rows if commit in self.commits(row)]
        proving = next((row for row in about if self.proves(row, commit)), None)
        newest = proving or max(about, key=lambda row: row.order, default=None)
        if newest is None:
            return None
        state, words = (CheckState.SUCCESS, _success_words(newest)) if proving else _unproven_standing(newest)
        link = f"{self.console.rstrip('/')}/runs/{newest.run_id}" if self.console else ""
        return Check(commit, state, fit(words, _MOST_SUMMARY), link)

    def proven(self, commit: str) -> bool:
        """Return whether a run proves the commit."""
        return any(self.proves(row, commit) for row in self.rows)

    def proves(self, row: BoardRow, commit: str) -> bool:
        """Return whether the run is sealed as a success, and landed or judged the commit."""
        return row.stage == "landed" and row.sealed and commit in self.commits(row)

    def commits(self, row: BoardRow) -> tuple[str, ...]:
        """Return the commits that the run is about: the landed one, and the judged head."""
        landed = row.landed_commit if row.landed_ref else ""
        judged = row.judged_head if row.publisher == self.publisher else ""
        return tuple(commit for commit in (landed, judged) if is_object_id(commit))

    def is_newest(self, row: BoardRow) -> bool:
        """Return whether no later run judges the same change request."""
        if not row.judged_ref:
            return True
        return all(
            each.order <= row.order
            for each in self.rows
            if each.judged_ref == row.judged_ref and each.publisher == self.publisher
        )


def is_of(entry: ForgeEntry, repository: str) -> bool:
    """Return whether runs of the repository at this address belong to the entry. ``.git`` at the end makes no difference."""
    try:
        return _exact_place(entry.repository) == _exact_place(repository)
    except MalformedError:
        return False


def ended_by_fault(row: BoardRow) -> bool:
    """Return whether a fault of the infrastructure ended the run, so that it has no verdict about its commit."""
    return row.stage == "failed" and family_of(row.code) == "infrastructure"


def request_number(ref: str) -> int | None:
    """Return the number in ``refs/pull/7/head`` or ``refs/merge-requests/7/head``; None for another ref."""
    parts = ref.split("/")
    fits = len(parts) == 4 and parts[:2] in (["refs", "pull"], ["refs", "merge-requests"]) and parts[3] == "head"
    return int(parts[2]) if fits and parts[2].isascii() and parts[2].isdecimal() else None


def wanted_of(view: ForgeView, row: BoardRow, past: FollowedRun) -> Wanted:
    """Return what the forge should show about a run. ``past``: its events so far, at least those of ``row``."""
    entry, run = view.entry, past.run
    checks = {commit: check for commit in view.commits(row) if (check := view.check(commit)) is not None}
    comment = join_bounded([marker_of(run.run_id), *_comment_lines(past, entry)])
    tree = run.landed.tree if run.landed is not None else run.candidate.tree if run.candidate is not None else ""
    head, request = _own_request(entry, run), None
    number = request_number(row.judged_ref) if run.publisher == view.publisher else None
    commit = row.judged_head if number is not None else ""
    if number is None and head:
        commit, request = row.landed_commit, _request_of_run(entry, past, head)
    proven = bool(commit) and view.proves(row, commit)
    merges = proven and entry.merge == "forge"
    on_target = run.landed is not None and run.landed.ref == _HEADS + entry.target
    return Wanted(
        run_id=run.run_id,
        marker=marker_of(run.run_id),
        comment=comment,
        checks=checks,
        commit=commit,
        tree=tree,
        number=number,
        request=request,
        merge=merges,
        close=proven and number is not None and entry.merge == "gatekeeper" and on_target,
        compare=merges,
        newest=view.is_newest(row),
    )


def with_alarm(comment: str, words: str) -> str:
    """Return the comment with the alarm ``words`` below its marker."""
    marker, _, rest = comment.partition("\n")
    advice = advice_for(MERGED_ELSEWHERE) or ""
    return "\n".join([marker, f"{_ALARM} {words}.", "", f"Advice: {advice}.", "", rest])


def has_alarm(comment: str) -> bool:
    """Return whether a comment of this process has an alarm. Only its second line is read, which has no text of others."""
    _, _, below = comment.partition("\n")
    return below.startswith(_ALARM)


def _exact_place(address: str) -> RepositoryAddress:
    place = place_of(address)
    *folders, last = place.parts or ("",)
    return RepositoryAddress(place.protocol, place.authority, (*folders, last.removesuffix(".git")))


def _own_request(entry: ForgeEntry, run: Run) -> str:
    """Return the branch of a run that needs a change request; empty if it needs none.

    A run that was made from another branch than the target gets none: its request would contain that branch, too.
    """
    landed, asked = run.landed, run.request
    if not entry.requests or landed is None or landed.mode != "branch" or not landed.ref.startswith(_HEADS):
        return ""
    made_from = asked.baseline_ref if asked is not None else "HEAD"
    of_target = made_from in {"HEAD", entry.target, _HEADS + entry.target} or is_object_id(made_from)
    return landed.ref.removeprefix(_HEADS) if of_target else ""


def _request_of_run(entry: ForgeEntry, past: FollowedRun, head: str) -> WantedRequest:
    run = past.run
    landed = run.landed.commit if run.landed is not None else ""
    body = [
        marker_of(run.run_id),
        f"Gatewright made this change in run {span(run.run_id)}. Commit {span(landed)} is what its gates judged.",
        "",
        "The order:",
        "",
        *quote(run.accepted.user_request),
        "",
        f"The check {span(entry.check)} succeeds on exactly the judged commit. A comment has the verdict.",
    ]
    return WantedRequest(head, entry.target, safe_title(run.accepted.user_request, run.run_id), join_bounded(body))


# Checks


def _success_words(row: BoardRow) -> str:
    return f"{row.run_id}: all gates passed{f'; {row.change}' if row.change else ''}"


def _unproven_standing(row: BoardRow) -> tuple[CheckState, str]:
    """Return state and summary of a run that proves nothing yet, or will never do."""
    if row.stage == "failed":
        state = CheckState.ERROR if ended_by_fault(row) else CheckState.FAILURE
        return state, f"{row.run_id}: {row.code}"
    if row.stage == "landed":
        return CheckState.PENDING, f"{row.run_id}: the evidence is not sealed yet"
    if row.stage == "person" and row.asks:
        return CheckState.PENDING, f"{row.run_id} waits for a person: gatewright approvals show {row.asks[0].request_id}"
    return CheckState.PENDING, f"{row.run_id} is running"


# Comment


def _comment_lines(past: FollowedRun, entry: ForgeEntry) -> Iterator[str]:
    run = past.run
    yield f"**Gatewright: {_verdict(run)}** ({span(run.run_id)})"
    yield ""
    if run.failure is not None:
        yield f"Reason: {span(run.failure.code)}"
        yield ""
        yield from quote(run.failure.message)
        yield ""
        if advice := advice_for(run.failure.code, run.run_id):
            yield f"Advice: {advice}."
            yield ""
    # While it runs, the comment stays as it is: each edit is a call, and forges limit them.
    if run.ended or run.parked:
        yield from _change_lines(past, entry)
    for asked in pending(run)[:_MOST_NAMED] if not run.ended else ():
        request = asked.request
        who = ", ".join(map(span, holders(asked)))
        yield f"- Waits for {who} until {request.expires_at}: {span(request.rule)}. Answer: "
        yield f"  {span(f'gatewright approvals show {request.request_id}')}"
    yield ""
    yield f"Details: {span(f'gatewright show {run.run_id}')}"


def _verdict(run: Run) -> str:
    if not run.ended:
        return "waiting for a person" if run.parked else "running"
    if run.status == "SUCCESS":
        return "passed" if run.sealed is not None else "passed; the evidence is not sealed yet"
    return "failed" if run.status == "FAILED" else "aborted"


def _change_lines(past: FollowedRun, entry: ForgeEntry) -> Iterator[str]:
    run, judged = past.run, judged_branch(past.run)
    if judged is not None:
        yield f"- Judged head: {span(judged.head)}"
    if run.candidate is not None:
        size = change_size(run.candidate.changed_files, run.candidate.changed_lines)
        yield f"- Change: {size}, tree {span(run.candidate.tree)}"
    yield from _gate_lines(past.decisive)
    yield from _test_lines(run.tests)
    if run.landed is not None and run.landed.ref:
        yield f"- Landed: {span(run.landed.commit)} on {span(run.landed.ref)}"
        if judged is not None and run.landed.ref == _HEADS + entry.target:
            yield f"- The change is on the target branch as {span(run.landed.commit)}, so this request ends without a merge."
    if run.sealed is not None:
        yield f"- Bundle: {span(f'sha256:{run.sealed.manifest_sha256}')}; verify: {span(f'gatewright verify {run.run_id}')}"


def _gate_lines(reports: Iterable[GateReport]) -> Iterator[str]:
    found = list(reports)
    refused = [each for each in found if each.verdict != "PASS"]
    if found:
        names = ", ".join(dict.fromkeys(each.gate for each in found if each.verdict == "PASS"))
        yield f"- Gates passed: {names or 'none'}"
    for each in refused[:_MOST_NAMED]:
        yield f"  - {each.gate} refused: {span(each.code)} {span(each.summary)}"


def _test_lines(report: TestReport | None) -> Iterator[str]:
    if report is None:
        return
    good = sum(map(passed, report.commands))
    yield f"- Tests: {report.status}, {good} of {len(report.commands)} commands passed"
    for command in [each for each in report.commands if not passed(each)][:_MOST_NAMED]:
        yield f"  - failed: {span(command.name)} {span(' '.join(command.cmd_argv))}"
