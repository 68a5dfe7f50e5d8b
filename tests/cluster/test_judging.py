"""What doctor says of an installation, by what it heard: each fault has its code and its weight."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gatewright.app.cluster.asking import ClusterLook, StreamLook
from gatewright.app.cluster.judging import LEAST_PAYLOAD, judge
from gatewright.bus.jetstream.processes import Process
from gatewright.bus.jetstream.queue_depths import Offered, QueueDepth
from gatewright.bus.topology import ROLES, task_consumer
from gatewright.clock import timestamp
from gatewright.reasons import REASONS

NOW = 1_790_000_000.0


def process(role: str, name: str = "a", *, version: str = "1.0.0", skew: float = 0.0, **told: str) -> Process:
    clock = timestamp(datetime.fromtimestamp(NOW + skew, UTC))
    metadata = {"identity": f"{role}", "clock": clock, "disk_free": str(50 << 30), "lacks": "", **told}
    return Process(f"{role}-{name}", f"gw-{role}", version, metadata, NOW)


WELL = ClusterLook(
    server="2.12.1",
    max_payload=LEAST_PAYLOAD,
    offered=Offered(1 << 20, None),
    round_trip=0.001,
    processes=(*(process(role) for role in ROLES), process("gatekeeper", "b")),
    streams=(StreamLook("RUNS", 10, 1000, 0.0, 1),),
    queues=(QueueDepth(task_consumer("worker"), 0, 0, 1, False, 0.0),),
    missing=(),
    dead_letters=0,
    now=NOW,
)


def without(role: str) -> tuple[Process, ...]:
    return tuple(each for each in WELL.processes if each.role != role)


def depth(**changes: object) -> tuple[QueueDepth, ...]:
    return (replace(WELL.queues[0], **changes),)  # type: ignore[arg-type]


def test_an_installation_that_is_well_has_no_finding() -> None:
    assert judge(WELL) == ()


@pytest.mark.parametrize(
    ("look", "severity", "code"),
    [
        (replace(WELL, processes=without("worker")), "error", "role_silent"),
        (replace(WELL, processes=(*without("gatekeeper"), process("gatekeeper"))), "info", "gatekeeper_single"),
        (replace(WELL, processes=(*without("pm"), process("pm", version="2.0.0"))), "warning", "versions_differ"),
        (replace(WELL, processes=(*WELL.processes, process("worker", "b"))), "info", "identity_shared"),
        (replace(WELL, processes=(*without("pm"), process("pm", lacks="disk: full"))), "error", "role_not_ready"),
        (replace(WELL, processes=(*without("pm"), process("pm", disk_free="1000"))), "warning", "disk_low"),
        (replace(WELL, processes=(*without("pm"), process("pm", skew=-60.0))), "warning", "clock_skew"),
        (replace(WELL, streams=(StreamLook("INTAKE", 10, 1000, 0.85, 1),)), "warning", "stream_nearly_full"),
        (replace(WELL, streams=(StreamLook("INTAKE", 10, 1000, 0.99, 1),)), "error", "stream_nearly_full"),
        (
            replace(WELL, streams=(StreamLook("RUNS", 1, 1, 0.0, 3, clustered=True, leader=False),)),
            "error",
            "stream_leaderless",
        ),
        (replace(WELL, streams=(StreamLook("RUNS", 1, 1, 0.0, 3, ("n2",), clustered=True),)), "warning", "replica_behind"),
        (replace(WELL, streams=(StreamLook("RUNS", 1, 1, 0.0, 1, clustered=True),)), "warning", "stream_single_copy"),
        (replace(WELL, queues=depth(waiting=3, pulls=0)), "error", "queue_unattended"),
        (replace(WELL, queues=depth(waiting=3, oldest=4000.0)), "warning", "queue_old"),
        (replace(WELL, queues=depth(paused=True)), "info", "queue_paused"),
        (replace(WELL, missing=("queue pm-default-low",)), "error", "consumer_missing"),
        (replace(WELL, dead_letters=2), "warning", "dead_letters_open"),
        (replace(WELL, server="2.9.4"), "error", "server_too_old"),
        (replace(WELL, max_payload=1 << 20), "error", "server_payload_small"),
        (replace(WELL, offered=Offered(90, 100)), "warning", "account_nearly_full"),
        (replace(WELL, expires=int(NOW) + 86_400), "warning", "credential_expires"),
        (replace(WELL, expires=int(NOW) - 1), "error", "credential_expires"),
    ],
)
def test_each_fault_is_found_with_its_weight_and_what_to_do(look: ClusterLook, severity: str, code: str) -> None:
    (finding,) = judge(look)
    assert (finding.severity, finding.code) == (severity, code)
    assert finding.hint == REASONS[code].advice


@pytest.mark.parametrize("clock", ["", "yesterday", "9999-99-99T00:00:00Z"])
def test_a_malformed_process_clock_breaks_nothing(clock: str) -> None:
    assert judge(replace(WELL, processes=(*without("pm"), process("pm", clock=clock)))) == ()


def test_the_gravest_stands_first() -> None:
    look = replace(WELL, processes=without("worker"), dead_letters=1, queues=depth(paused=True))
    assert [each.severity for each in judge(look)] == ["error", "warning", "info"]
