"""The calls that lead from what a forge shows to what it should show."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest

from gatewright.app.forge.desired import ForgeView, Wanted, wanted_of
from gatewright.app.forge.port import ChangeRequest, Check, Comment
from gatewright.app.forge.reconcile import (
    CloseRequest,
    MergeRequest,
    OpenRequest,
    ReconcilePlan,
    SetCheck,
    Shown,
    WriteComment,
    plan,
)
from gatewright.contracts.forge_policy import ForgeEntry
from tests.evidence.recorded_runs import COMMIT, START, TREE
from tests.forge.outward.runs import ENTRY, HEAD, ForgeRun, entry_with, row_of, view_of

MOVED = "d" * 40
MERGED = "e" * 40
BY_FORGE = entry_with(merge="forge")


def request(head: str = HEAD, state: Literal["open", "closed", "merged"] = "open", number: int = 7) -> ChangeRequest:
    merged = MERGED if state == "merged" else None
    return ChangeRequest(number, head, "topic", f"refs/pull/{number}/head", "main", "ana", False, state, "t", "b", merged)


def seen(run: ForgeRun, *others: ForgeRun, entry: ForgeEntry = ENTRY) -> tuple[ForgeView, Wanted]:
    view = view_of(run, *others, entry=entry)
    return view, wanted_of(view, row_of(view, run), run.past)


def judged(key: str = "judged", **changes: object) -> ForgeRun:
    return ForgeRun(key=key, number=7, **changes)  # type: ignore[arg-type]


def shown_after(view: ForgeView, wanted: Wanted, shown: Shown, planned: ReconcilePlan) -> Shown:
    """What the forge shows once the calls were carried out."""
    for call in planned.calls:
        match call:
            case OpenRequest():
                shown = replace(shown, request=request(wanted.commit))
            case WriteComment(body=body):
                shown = replace(shown, comment=Comment(1, body + "\r\n"))
            case SetCheck(check=check):
                shown = replace(shown, checks={**(shown.checks or {}), check.commit: check})
            case MergeRequest(head=head):
                shown = replace(shown, request=request(head, "merged"), merged_tree=wanted.tree)
            case CloseRequest():
                assert shown.request is not None
                shown = replace(shown, request=replace(shown.request, state="closed"))
    return shown


@pytest.mark.parametrize("entry", [ENTRY, BY_FORGE, entry_with(merge="gatekeeper", landing="target")])
@pytest.mark.parametrize("number", [0, 7])
def test_a_repeated_plan_is_empty(entry: ForgeEntry, number: int) -> None:
    run = ForgeRun(key="any", number=number)
    _ = run.succeed(mode="target", ref="refs/heads/main") if entry.merge == "gatekeeper" else run.succeed()
    view, wanted = seen(run, entry=entry)
    shown = Shown(request=request() if number else None)
    for _ in range(3):
        shown = shown_after(view, wanted, shown, plan(view, wanted, shown))
    assert plan(view, wanted, shown) == ReconcilePlan()


def test_a_request_is_opened_before_anything_else() -> None:
    view, wanted = seen(ForgeRun(key="own").succeed())
    (call,) = plan(view, wanted, Shown()).calls
    assert isinstance(call, OpenRequest)


def test_the_last_check_follows_the_comment_and_precedes_the_merge() -> None:
    view, wanted = seen(judged().succeed(), entry=BY_FORGE)
    calls = [type(call) for call in plan(view, wanted, Shown(request())).calls]
    assert calls == [WriteComment, SetCheck, SetCheck, MergeRequest]


def test_a_moved_head_gets_no_check_no_comment_and_no_merge() -> None:
    view, wanted = seen(judged().succeed(), entry=BY_FORGE)
    calls = plan(view, wanted, Shown(request(MOVED))).calls
    assert {call.check.commit for call in calls if isinstance(call, SetCheck)} == {HEAD, COMMIT}
    assert len(calls) == 2


def test_an_existing_comment_about_an_old_head_gets_its_verdict() -> None:
    view, wanted = seen(judged().succeed())
    calls = plan(view, wanted, Shown(request(MOVED), Comment(3, f"{wanted.marker}\nrunning"))).calls
    assert WriteComment(7, wanted.comment, 3) in calls


def test_a_closed_request_is_left_closed() -> None:
    view, wanted = seen(ForgeRun(key="own").succeed(), entry=BY_FORGE)
    calls = plan(view, wanted, Shown(request(COMMIT, "closed"))).calls
    assert [type(call) for call in calls] == [SetCheck]


def test_a_success_of_others_on_an_unproven_commit_is_replaced() -> None:
    view, wanted = seen(judged().fail())
    forged = Check(HEAD, type(wanted.checks[HEAD].state).SUCCESS, "all fine")
    calls = plan(view, wanted, Shown(request(), checks={HEAD: forged})).calls
    assert SetCheck("gatewright", wanted.checks[HEAD]) in calls


def test_a_merge_at_an_unproven_commit_is_an_alarm() -> None:
    view, wanted = seen(judged().succeed())
    planned = plan(view, wanted, Shown(request(MOVED, "merged")))
    (comment, *_) = planned.calls
    assert isinstance(comment, WriteComment)
    assert MOVED in planned.alarm
    assert "merged_elsewhere" in comment.body
    again = plan(view, wanted, Shown(request(MOVED, "merged"), Comment(1, comment.body), wanted.checks))
    assert again == ReconcilePlan()


def test_a_merge_of_a_failed_run_is_an_alarm() -> None:
    view, wanted = seen(judged().fail())
    assert HEAD in plan(view, wanted, Shown(request(HEAD, "merged"))).alarm


def test_a_merge_while_the_run_works_is_no_alarm_yet() -> None:
    view, wanted = seen(judged().begin())
    assert plan(view, wanted, Shown(request(HEAD, "merged"))).alarm == ""


def test_a_merge_at_a_head_that_another_run_proves_is_no_alarm() -> None:
    first = judged("first").succeed()
    second = judged("second", head=MOVED, start=START + timedelta(hours=1)).succeed()
    view, wanted = seen(first, second)
    assert plan(view, wanted, Shown(request(MOVED, "merged"))).alarm == ""


def test_only_the_newest_run_of_a_request_raises_its_alarm() -> None:
    first = judged("first").succeed()
    second = judged("second", head=MOVED, start=START + timedelta(hours=1)).fail()
    view, wanted = seen(first, second)
    assert plan(view, wanted, Shown(request(MOVED, "merged"))).alarm == ""
    view, wanted = seen(second, first)
    assert plan(view, wanted, Shown(request(MOVED, "merged"))).alarm != ""


@pytest.mark.parametrize(("tree", "alarm"), [(TREE, False), ("9" * 40, True), ("", True)])
def test_the_tree_of_a_merge_by_the_forge_is_the_judged_one(tree: str, alarm: bool) -> None:
    view, wanted = seen(judged().succeed(), entry=BY_FORGE)
    assert bool(plan(view, wanted, Shown(request(HEAD, "merged"), merged_tree=tree)).alarm) is alarm


def test_people_may_merge_a_proven_head_onto_a_moved_target() -> None:
    view, wanted = seen(judged().succeed())
    assert plan(view, wanted, Shown(request(HEAD, "merged"), merged_tree="9" * 40)).alarm == ""


def test_a_request_for_another_base_is_not_merged() -> None:
    view, wanted = seen(judged().succeed(), entry=BY_FORGE)
    calls = plan(view, wanted, Shown(replace(request(), base="release"))).calls
    assert not any(isinstance(call, MergeRequest) for call in calls)


def test_a_landed_request_is_closed_with_a_link() -> None:
    run = judged().succeed(mode="target", ref="refs/heads/main")
    view, wanted = seen(run, entry=entry_with(merge="gatekeeper", landing="target"))
    calls = plan(view, wanted, Shown(request())).calls
    assert calls[-1] == CloseRequest(7)
    assert isinstance(calls[0], WriteComment)
    assert f"The change is on the target branch as `{COMMIT}`" in calls[0].body
