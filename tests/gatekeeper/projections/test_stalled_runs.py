"""When a gatekeeper looks at a run that nobody moves: not at once, not all of them together, and ever more seldom."""

from __future__ import annotations

import json

from gatewright.services.gatekeeper.projections.entries import LedgerEntry
from gatewright.services.gatekeeper.projections.follower import between_one_and_two
from gatewright.services.gatekeeper.projections.stalled_runs import LONGEST, StalledRuns
from tests.gatekeeper.entries import make_entry

RUN = "run-0123456789"


def entry(*events: str, run_id: str = RUN) -> LedgerEntry:
    said = [{"event_type": event, "ts": "", "payload": {}} for event in events]
    return make_entry(json.dumps({"number": 1, "run_id": run_id, "events": said}).encode(), run_id)


def test_a_run_is_due_once_it_has_stood_still_and_not_before() -> None:
    runs = StalledRuns(lambda: 1.5, quiet=10.0)
    runs.saw(entry("run_accepted"), 100.0)
    assert runs.due(114.9) == ()
    assert runs.due(115.0) == (RUN,)


def test_a_run_that_moves_is_left_alone_from_the_start() -> None:
    runs = StalledRuns(lambda: 1.0, quiet=10.0)
    runs.saw(entry("run_accepted"), 0.0)
    runs.looked(RUN, 10.0)
    runs.saw(entry("plan_accepted"), 12.0)
    assert runs.due(21.9) == ()
    assert runs.due(22.0) == (RUN,)


def test_looks_become_rare_for_a_run_that_waits_for_long_work() -> None:
    runs, now = StalledRuns(lambda: 1.0, quiet=10.0), 0.0
    times: list[float] = []
    runs.saw(entry("run_accepted"), now)
    while len(times) < 8:
        now += 1.0
        if runs.due(now):
            times.append(now)
            runs.looked(RUN, now)
    pauses = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert pauses == [10, 20, 40, 80, 160, LONGEST, LONGEST, LONGEST]


def test_a_look_that_came_while_the_run_moved_changes_nothing() -> None:
    runs = StalledRuns(lambda: 1.0, quiet=10.0)
    runs.saw(entry("run_accepted"), 0.0)
    runs.saw(entry("plan_accepted"), 10.0)
    runs.looked(RUN, 10.5)
    assert runs.due(20.0) == (RUN,)


def test_a_sealed_run_is_looked_at_no_more() -> None:
    runs = StalledRuns(lambda: 1.0, quiet=10.0)
    runs.saw(entry("run_accepted"), 0.0)
    assert runs.saw(entry("bundle_sealed"), 1.0)
    assert len(runs) == 0


def test_after_a_start_everything_that_is_open_is_due() -> None:
    runs = StalledRuns(lambda: 1.0, quiet=10.0)
    runs.saw(entry("run_accepted"), 0.0)
    runs.saw(entry("run_accepted", run_id="run-another000"), 1.0)
    runs.everything_is_due(2.0)
    assert set(runs.due(2.0)) == {RUN, "run-another000"}


def test_gatekeepers_do_not_look_at_the_same_moment() -> None:
    moments = [between_one_and_two() for _ in range(100)]
    assert all(1.0 <= moment <= 2.0 for moment in moments)
    assert len(set(moments)) > 90
