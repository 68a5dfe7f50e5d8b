"""More stories: what cannot have happened beside the rest, each event for itself being possible."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace as changed

from gatewright.contracts.vocabulary import Usage
from gatewright.run import events as e
from tests.evidence.contradictions import OTHER_RUN, OTHER_TREE, Story, Told, evidence, insert, report, swap
from tests.evidence.recorded_runs import make_success
from tests.evidence.stories import EVENTS


def interrupted_before_its_time(story: list[Told]) -> Iterator[Told]:
    """Interrupted work is accounted for in a run of a version that did not record any."""
    finished = next(each for each in story if isinstance(each.payload, e.TaskFinished))
    assert isinstance(finished.payload, e.TaskFinished)
    usage = Usage(delivery="9.1", tokens=1, cost_usd=0.0, iterations=0)
    account = e.TaskInterrupted(task_id=finished.payload.result.task_id, why="failed", usage=usage)
    for each in story:
        yield each
        if each is finished:
            yield Told(account, changed(each.record, level="INFO"))


STORIES_OF_ORDER: dict[str, Story] = {
    "a run that was aborted and ended as success": Story(
        make_success,
        insert(e.CandidateComposed, e.AbortRequested(reason="no more", requested_by="anna")),
        "end_contradicts",
        EVENTS,
    ),
    "locks of another repository": Story(
        make_success, swap(e.LocksTaken, lambda given: changed(given, repository_url="/srv/other")), "out_of_turn", EVENTS
    ),
    "locks that were waited for when they were held": Story(
        make_success, insert(e.LocksTaken, e.LocksWaiting(holders=(OTHER_RUN,))), "out_of_turn", EVENTS
    ),
    "interrupted work in a run of a version that recorded none": Story(
        make_success, interrupted_before_its_time, "order_contradicts", EVENTS
    ),
    "an order that was accepted under other policies than it was judged by": Story(
        make_success,
        report(e.GateJudged, 0, evidence=evidence("policies", OTHER_TREE)),
        "gate_contradicts",
        "reports/gates/",
        "meta.json",
    ),
}
