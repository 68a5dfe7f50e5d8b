"""What is no entry of the ledger is told to nobody who follows all runs."""

from __future__ import annotations

import pytest

from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.services.gatekeeper.projections.entries import read_entry
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.simulated_run import RUN_ID, Script, SimulatedRun

FOREIGN = [
    b"",
    b"\xff",
    b"null",
    b"[]",
    b'"run_finished"',
    b'\xff"run_finished"',
    b'{"type":"io.nats.jetstream.api.v1.stream_info_response"}',
    b'{"events": 1}',
    b'{"number":1,"events":[1]}',
    b'{"number": 2, "events": ["run_finished"]}',
    b'{"events": [{"event_type": "run_accepted", "ts": "now", "payload": {}}]}',
]


@pytest.mark.parametrize("data", FOREIGN)
def test_a_foreign_message_in_the_ledger_is_passed_over(data: bytes) -> None:
    assert read_entry(Message(run_subject(RUN_ID), data)) is None


def test_an_entry_records_how_its_run_ended() -> None:
    simulated = SimulatedRun(Script())
    while simulated.under_way:
        simulated.deliver(simulated.under_way.pop(0))
    outcomes = [make_entry(transition).outcome for transition in simulated.transitions]
    assert [outcome for outcome in outcomes if outcome is not None] == ["SUCCESS"]


def test_an_end_that_is_none_is_not_believed() -> None:
    data = b'{"number":1,"events":[{"event_type":"run_finished","ts":"","payload":{"status":"GOOD"}}]}'
    assert make_entry(data, RUN_ID).outcome is None
