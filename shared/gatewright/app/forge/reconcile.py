"""Compares what a forge should show about a run with what it shows, and carries out the difference.

The plan is pure. Its calls are in an order that is safe at every crash: what exists is found before it is made, the comment
comes before the last check, and a merge comes after its check. A repeated plan from the same ledger is empty.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from gatewright.app.forge.desired import ForgeView, Wanted, has_alarm, with_alarm
from gatewright.app.forge.port import ChangeRequest, Check, Comment, Forge
from gatewright.app.forge.text import span
from gatewright.errors import DeniedError

#: Rounds of one reconciliation: open, merge, compare; and one that must find nothing to do.
_MOST_ROUNDS: Final = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shown:
    """What the forge shows about a run now. ``checks``: by commit. ``merged_tree``: tree of the merged commit, if compared."""

    request: ChangeRequest | None = None
    comment: Comment | None = None
    checks: Mapping[str, Check] | None = None
    merged_tree: str = ""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Open the change request of a run."""

    head_branch: str
    base: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class WriteComment:
    """Add a comment to a change request, or replace the comment ``comment_id``."""

    number: int
    body: str
    comment_id: int | None = None


@dataclass(frozen=True, slots=True)
class SetCheck:
    """Set the check of one commit."""

    name: str
    check: Check


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Have the forge merge a change request whose head is still ``head``."""

    number: int
    head: str


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """Close a change request whose change is on the target."""

    number: int


ForgeCall = OpenRequest | WriteComment | SetCheck | MergeRequest | CloseRequest


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The calls, in order. ``alarm``: why the merged commit is not what was judged, if no comment contains it; else empty."""

    calls: tuple[ForgeCall, ...] = ()
    alarm: str = ""


def plan(view: ForgeView, wanted: Wanted, shown: Shown) -> ReconcilePlan:
    """Return the calls that lead from ``shown`` to ``wanted``.

    1. A missing request is opened, and nothing else happens before its number is known.
    2. The comment.
    3. The checks, each on the commit that the ledger names. The present head of the request changes nothing.
    4. A merge or a close, only of a request whose head is the judged commit.
    """
    request = shown.request
    if wanted.request is not None and request is None:  # 1
        new = wanted.request
        return ReconcilePlan((OpenRequest(new.head_branch, new.base, new.title, new.body),))
    alarm = _alarm(view, wanted, shown)
    calls: list[ForgeCall] = []
    if request is not None and (comment := _comment_call(wanted, request, shown.comment, alarm)) is not None:  # 2
        calls.append(comment)
    known = shown.checks or {}
    calls += [
        SetCheck(view.entry.check, check) for commit, check in wanted.checks.items() if not _is_shown(check, known.get(commit))
    ]  # 3
    if request is not None and request.state == "open" and request.head == wanted.commit:  # 4
        if wanted.merge and request.base == view.entry.target:
            calls.append(MergeRequest(request.number, wanted.commit))
        elif wanted.close:
            calls.append(CloseRequest(request.number))
    return ReconcilePlan(tuple(calls), "" if shown.comment is not None and has_alarm(shown.comment.body) else alarm)


def _alarm(view: ForgeView, wanted: Wanted, shown: Shown) -> str:
    """Return why a merged request is an alarm: at a commit that no run proves, or with another tree than the judged one."""
    request = shown.request
    if request is None or request.state != "merged" or not wanted.newest:
        return ""
    standing = view.check(request.head)
    if standing is not None and standing.state == "pending":
        return ""  # its run has not ended
    if not view.proven(request.head):
        return f"the request was merged at {span(request.head)}, which no run proves"
    if wanted.compare and request.head == wanted.commit and shown.merged_tree != wanted.tree:
        merged = span(shown.merged_tree or "unknown")
        return f"the merged commit has the tree {merged}, and the judged tree is {span(wanted.tree)}"
    return ""


def _comment_call(wanted: Wanted, request: ChangeRequest, comment: Comment | None, alarm: str) -> WriteComment | None:
    body = with_alarm(wanted.comment, alarm) if alarm else wanted.comment
    if comment is not None:
        same = _stored_text(comment.body) == _stored_text(body)
        return None if same else WriteComment(request.number, body, comment.comment_id)
    # A request that has ended or moved on gets no new comment about an old commit, but for an alarm.
    current = request.state == "open" and request.head == wanted.commit
    return WriteComment(request.number, body) if current or alarm else None


def _is_shown(check: Check, shown: Check | None) -> bool:
    if shown is None or shown.state != check.state:
        return False
    return _stored_text(shown.summary) == _stored_text(check.summary) and shown.link == check.link


def _stored_text(text: str) -> str:
    """Return a text as forges keep it: they change line ends and drop blanks at the end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


class MeasureCall(Protocol):
    """Awaits a call of the forge and counts its outcome by method."""

    async def __call__(self, method: str, call: Awaitable[T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was done about a run. ``alarm``: new words of an alarm. ``refused``: calls that the forge refused.

    ``open``: whether the forge may change what is shown, so that it is compared again later.
    """

    run_id: str
    number: int | None = None
    calls: tuple[ForgeCall, ...] = ()
    alarm: str = ""
    refused: tuple[DeniedError, ...] = ()
    open: bool = False


class Reconciler:
    """Reconciles the runs of one entry with its forge. It has no state: repeated from nothing, it does nothing."""

    def __init__(self, forge: Forge, measure: MeasureCall) -> None:
        self._forge = forge
        self._measure = measure

    async def reconcile(self, view: ForgeView, wanted: Wanted) -> Reconciled:
        """Carry out the difference between ``wanted`` and what the forge shows.

        A refused call does not prevent the ones behind it. Raises ForgeUnavailableError: the rest is due later.
        """
        done = Reconciled(wanted.run_id)
        for _ in range(_MOST_ROUNDS):
            shown, wanted, done = await self._read_shown(view, wanted, done)
            planned = plan(view, wanted, shown)
            done, again = await self._carry_out(planned, done)
            if any(isinstance(call, OpenRequest) for call in planned.calls) and not again:
                wanted = replace(wanted, request=None)
            elif not again:
                break
        return done

    async def _read_shown(self, view: ForgeView, wanted: Wanted, done: Reconciled) -> tuple[Shown, Wanted, Reconciled]:
        """Read what the forge shows. What it refuses to show is not wanted in this round."""
        request: ChangeRequest | None = None
        comment: Comment | None = None
        tree = ""
        checks: dict[str, Check] = {}
        refused: list[DeniedError] = []
        try:
            if wanted.number is not None:
                request = await self._measure("request", self._forge.request(wanted.number))
            elif wanted.request is not None:
                new = wanted.request
                request = await self._measure("request_from", self._forge.request_from(new.head_branch, new.base))
            if request is not None:
                comment = await self._measure("comment", self._forge.comment(request.number, wanted.marker))
                if wanted.compare and request.state == "merged" and request.merge_commit is not None:
                    tree = await self._measure("tree_of", self._forge.tree_of(request.merge_commit))
        except DeniedError as error:
            refused.append(error)
            request, wanted = None, replace(wanted, number=None, request=None, merge=False, close=False)
        for commit in wanted.checks:
            try:
                found = await self._measure("checks", self._forge.checks(commit))
            except DeniedError as error:
                refused.append(error)
                wanted = replace(wanted, checks={key: check for key, check in wanted.checks.items() if key != commit})
                continue
            if (check := found.get(view.entry.check)) is not None:
                checks[commit] = check
        number = request.number if request is not None else done.number
        refusals = (*done.refused, *refused)
        still = bool(refusals) or (request is not None and request.state == "open")
        done = replace(done, number=number, refused=refusals, open=still)
        return Shown(request, comment, checks, tree), wanted, done

    async def _carry_out(self, planned: ReconcilePlan, done: Reconciled) -> tuple[Reconciled, bool]:
        """Carry out the calls in order; return what was done, and whether the forge shows something new to compare."""
        again = False
        for call in planned.calls:
            if done.refused and isinstance(call, MergeRequest | CloseRequest):
                continue  # a request ends only after its check and its comment
            try:
                await self._make_call(call)
            except DeniedError as error:
                done = replace(done, refused=(*done.refused, error), open=True)
                continue
            alarm = planned.alarm if isinstance(call, WriteComment) and planned.alarm else done.alarm
            done = replace(done, calls=(*done.calls, call), alarm=alarm)
            again |= isinstance(call, OpenRequest | MergeRequest | CloseRequest)
        return done, again

    async def _make_call(self, call: ForgeCall) -> None:
        forge = self._forge
        match call:
            case OpenRequest(head_branch, base, title, body):
                await self._measure("open_request", forge.open_request(head_branch, base, title, body))
            case WriteComment(number, body, None):
                await self._measure("add_comment", forge.add_comment(number, body))
            case WriteComment(number, body, int(comment_id)):
                await self._measure("edit_comment", forge.edit_comment(number, comment_id, body))
            case SetCheck(name, check):
                await self._measure("set_check", forge.set_check(name, check))
            case MergeRequest(number, head):
                await self._measure("merge", forge.merge(number, head))
            case CloseRequest(number):
                await self._measure("close_request", forge.close_request(number))
