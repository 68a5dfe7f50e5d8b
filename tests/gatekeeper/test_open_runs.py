"""When a gatekeeper looks at a run that nobody moves: not at once, not all of them together, and ever more seldom."""

from __future__ import annotations

import json

from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from services.gatekeeper.lookout import between_one_and_two
from services.gatekeeper.open_runs import LONGEST, OpenRuns

RUN = "run-0123456789"


def message(*events: str, run_id: str = RUN) -> Message:
    body = {"number": 1, "run_id": run_id, "events": [{"event_type": event, "payload": {}} for event in events]}
    return Message(run_subject(run_id), json.dumps(body).encode())


def test_a_run_is_due_once_it_has_stood_still_and_not_before() -> None:
    runs = OpenRuns(lambda: 1.5, quiet=10.0)
    runs.saw(message("run_accepted"), 100.0)
    assert runs.due(114.9) == ()
    assert runs.due(115.0) == (RUN,)


def test_a_run_that_moves_is_left_alone_from_the_start() -> None:
    runs = OpenRuns(lambda: 1.0, quiet=10.0)
    runs.saw(message("run_accepted"), 0.0)
    runs.looked(RUN, 10.0)
    runs.saw(message("plan_accepted"), 12.0)
    assert runs.due(21.9) == ()
    assert runs.due(22.0) == (RUN,)


def test_looks_become_rare_for_a_run_that_waits_for_long_work() -> None:
    runs, now = OpenRuns(lambda: 1.0, quiet=10.0), 0.0
    times: list[float] = []
    runs.saw(message("run_accepted"), now)
    while len(times) < 8:
        now += 1.0
        if runs.due(now):
            times.append(now)
            runs.looked(RUN, now)
    pauses = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert pauses == [10, 20, 40, 80, 160, LONGEST, LONGEST, LONGEST]


def test_a_look_that_came_while_the_run_moved_changes_nothing() -> None:
    runs = OpenRuns(lambda: 1.0, quiet=10.0)
    runs.saw(message("run_accepted"), 0.0)
    runs.saw(message("plan_accepted"), 10.0)
    runs.looked(RUN, 10.5)
    assert runs.due(20.0) == (RUN,)


def test_a_sealed_run_is_looked_at_no_more_and_foreign_messages_are_not_looked_at() -> None:
    runs = OpenRuns(lambda: 1.0, quiet=10.0)
    runs.saw(message("run_accepted"), 0.0)
    assert runs.saw(message("bundle_sealed"), 1.0) == (RUN, True)
    assert len(runs) == 0
    for data in (
        b"",
        b"null",
        b"\xff",
        b'{"type":"io.nats.jetstream.api.v1.stream_info_response"}',
        b'{"number":1,"events":[1]}',
    ):
        assert runs.saw(Message(run_subject(RUN), data), 2.0) == (RUN, False)
    assert len(runs) == 0


def test_after_a_start_everything_that_is_open_is_due() -> None:
    runs = OpenRuns(lambda: 1.0, quiet=10.0)
    runs.saw(message("run_accepted"), 0.0)
    runs.saw(message("run_accepted", run_id="run-another000"), 1.0)
    runs.everything_is_due(2.0)
    assert set(runs.due(2.0)) == {RUN, "run-another000"}


def test_gatekeepers_do_not_look_at_the_same_moment() -> None:
    moments = [between_one_and_two() for _ in range(100)]
    assert all(1.0 <= moment <= 2.0 for moment in moments)
    assert len(set(moments)) > 90
