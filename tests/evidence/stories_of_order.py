"""More stories: what cannot have happened beside the rest, each event for itself being possible."""

from __future__ import annotations

from msgspec.structs import replace as changed

from gatewright.run import events as e
from tests.evidence.contradictions import OTHER_RUN, OTHER_TREE, Story, evidence, insert, report, swap
from tests.evidence.recorded_runs import make_success
from tests.evidence.stories import EVENTS

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
    "an order that was accepted under other policies than it was judged by": Story(
        make_success,
        report(e.GateJudged, 0, evidence=evidence("policies", OTHER_TREE)),
        "gate_contradicts",
        "reports/gates/",
        "meta.json",
    ),
}
