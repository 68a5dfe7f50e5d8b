"""What the gatekeeper counts of runs and queues: times of the ledger, once each, and no label that somebody could invent."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_depths import QueueDepth
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import INTAKE_CONSUMER, Consumer, consumers, dead_subject, task_consumer, task_subject
from gatewright.clock import SystemClock
from gatewright.ledger.store import Position
from gatewright.run.durations import LocksHad, LocksWaitedFor, RunOver, StateLeft, passages
from gatewright.service.process import Readiness, Service
from gatewright.services.gatekeeper.run_metrics import by_label, look, measure, watch_queues
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metric_list import MOST_POOLS
from gatewright.telemetry.metrics import Metrics, QueueLook
from tests.gatekeeper.decider.test_decider import run_in_order
from tests.gatekeeper.simulated_run import Script, SimulatedRun
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


def measured(world: SimulatedRun) -> Metrics:
    metrics = Metrics("gatekeeper")
    for number in range(1, len(world.transitions) + 1):
        measure(metrics, Position(world.run, number, tuple(world.transitions[:number])))
    return metrics


def test_each_state_is_left_once_with_the_time_of_the_ledger() -> None:
    """The simulated clock goes one second a transition."""
    world = run_in_order(Script())
    left = [
        passage
        for number in range(1, len(world.transitions) + 1)
        for passage in passages(world.transitions[:number])
        if isinstance(passage, StateLeft)
    ]
    assert [passage.state for passage in left] == world.states
    assert sum(passage.seconds for passage in left) == len(world.transitions) - 1
    over = [passage for number in range(1, len(world.transitions) + 1) for passage in passages(world.transitions[:number])]
    ends = [passage for passage in over if isinstance(passage, RunOver)]
    assert [(end.state, end.seconds) for end in ends] == [("S6", sum(stay.seconds for stay in left[:-1]))]


def test_a_round_of_the_fix_loop_counts_its_states_again() -> None:
    value = measured(run_in_order(Script(retries=1, tests_fail_until=1))).registry.get_sample_value
    for stage, times in {"S0": 1, "S1": 1, "S2": 2, "S3": 2, "S4": 2, "S5": 1, "S6": 1}.items():
        assert value("gatewright_stage_duration_seconds_count", {"stage": stage}) == times, stage
    assert value("gatewright_runs_total", {"outcome": "success"}) == 1


def test_a_failed_run_without_bundle_is_counted_as_failed() -> None:
    value = measured(run_in_order(Script(landing_refused=True))).registry.get_sample_value
    assert value("gatewright_runs_total", {"outcome": "failed"}) == 1
    assert value("gatewright_runs_total", {"outcome": "success"}) == 0
    assert value("gatewright_run_duration_seconds_count", {"outcome": "failed"}) == 1
    assert value("gatewright_stage_duration_seconds_count", {"stage": "FAILED"}) == 1


def test_a_lock_wait_is_counted_once_with_ledger_time() -> None:
    world = run_in_order(Script(lock_refusals=3))
    numbers = range(1, len(world.transitions) + 1)
    seen = [passage for number in numbers for passage in passages(world.transitions[:number])]
    assert [type(passage) for passage in seen].count(LocksWaitedFor) == 1
    assert sum(isinstance(passage, LocksHad) for passage in seen) == 1
    value = measured(world).registry.get_sample_value
    assert value("gatewright_lock_waits_total") == value("gatewright_lock_wait_seconds_count") == 1
    seconds = value("gatewright_lock_wait_seconds_sum")
    assert seconds is not None
    assert seconds >= 1


def test_a_run_that_found_its_paths_free_waited_for_no_lock() -> None:
    value = measured(run_in_order(Script())).registry.get_sample_value
    assert value("gatewright_lock_waits_total") == value("gatewright_lock_wait_seconds_count") == 0


def test_a_run_without_history_measures_nothing() -> None:
    assert passages(()) == ()


#: The gatekeeper's own queues; each has a name of its own in the metrics.
OWN = [queue for queue in consumers() if queue.owner == "gatekeeper"]


def test_every_queue_has_a_name_and_unknown_ones_are_ignored() -> None:
    labels = by_label([depth(queue) for queue in consumers()])
    # What publishers leave is shown together.
    assert len(labels) == len(consumers()) - 1 == len(by_label([depth(queue) for queue in consumers(publishers=["ci"])]))
    assert ("other", "none", "none") not in labels
    stranger = Consumer("SOMEWHERE", "gatekeeper-else", "gw.else.>", "gatekeeper")
    assert list(by_label([depth(stranger)])) == [("other", "none", "none")]


def depth(queue: Consumer, waiting: int = 0, in_hand: int = 0, pulls: int = 0, oldest: float = 0.0) -> QueueDepth:
    return QueueDepth(queue, waiting, in_hand, pulls, paused=False, oldest=oldest)


def test_each_pool_is_shown_and_an_unserved_one_stays_visible() -> None:
    served = depth(task_consumer("worker", "default"), waiting=1, in_hand=1, pulls=0, oldest=2.0)
    alone = depth(task_consumer("worker", "gpu"), waiting=4, oldest=90.0)
    assert by_label([served, alone]) == {
        ("worker", "default", "normal"): QueueLook(1, 1, 0, paused=False, oldest=2.0, unattended=0),
        ("worker", "gpu", "normal"): QueueLook(4, 0, 0, paused=False, oldest=90.0, unattended=4),
    }


def test_a_worker_busy_with_another_class_still_serves_the_queue() -> None:
    busy = depth(task_consumer("worker", task_class="high"), in_hand=1)
    waits = depth(task_consumer("worker", task_class="low"), waiting=7, oldest=5.0)
    assert by_label([busy, waits])["worker", "default", "low"].unattended == 0


def test_pools_without_number_make_no_time_series_without_number() -> None:
    metrics = Metrics("gatekeeper")
    pools = tuple(f"pool-{number:03}" for number in range(500))
    metrics.queues(by_label([depth(queue, waiting=1) for queue in consumers(pools)]))
    found = re.findall(rb"^gatewright_queue_depth\{.*\}", metrics.exposition(), re.MULTILINE)
    assert len(found) == (5 * 3 * (MOST_POOLS + 1) + len(OWN) - 1) * 2
    assert b'pool="pool-063"' in metrics.exposition()
    assert b"pool-064" not in metrics.exposition()
    rest = {"queue": "pm", "pool": "other", "class": "low", "state": "waiting"}
    assert metrics.registry.get_sample_value("gatewright_queue_depth", rest) == 500 - MOST_POOLS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OpenServer]:
    async with await OpenServer.open(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def bus(server: OpenServer) -> AsyncIterator[JetStreamBus]:
    """The gatekeeper's bus on a real server."""
    connected = await JetStreamBus.connect(server.url, name="gatekeeper")
    await ensure_topology(connected)
    yield connected
    await connected.close()


def make_service(bus: JetStreamBus) -> Service:
    clock, log = SystemClock(), make_logger(io.BytesIO())
    return Service("gatekeeper", bus, clock, log, Metrics("gatekeeper"), Readiness(), asyncio.Event())


async def test_queues_are_watched_until_the_process_is_to_leave(bus: JetStreamBus) -> None:
    service = make_service(bus)
    watching = asyncio.create_task(watch_queues(service, consumers))
    async with asyncio.timeout(PATIENCE):
        while b"gatewright_queue_depth{" not in service.metrics.exposition():  # noqa: ASYNC110 - a gauge tells nobody
            await asyncio.sleep(0.01)
    service.stop.set()
    await asyncio.wait_for(watching, 0.5)
    shown = service.metrics.exposition()
    assert all(f'queue="{name}"'.encode() in shown for name in ("intake", "results", "worker"))


async def test_a_bus_that_does_not_answer_keeps_no_process_from_leaving(bus: JetStreamBus, server: OpenServer) -> None:
    await server.stop()
    service = make_service(bus)
    watching = asyncio.create_task(watch_queues(service, consumers))
    await asyncio.sleep(0.1)
    service.stop.set()
    await asyncio.wait_for(watching, 0.5)
    assert b"gatewright_queue_depth{" not in service.metrics.exposition()


async def test_a_look_shows_every_queue_and_the_dead_letters(bus: JetStreamBus) -> None:
    metrics = Metrics("gatekeeper")
    await bus.publish(task_subject("pm", task_class="high"), b"{}", schema="request_task.v1", message_id="1")
    await bus.publish(dead_subject("pm"), b"{}", schema="request_task.v1", message_id="1")
    await look(bus, consumers(), metrics)
    value = metrics.registry.get_sample_value
    waiting = {"queue": "pm", "pool": "default", "class": "high"}
    assert value("gatewright_queue_depth", {**waiting, "state": "waiting"}) == 1
    assert value("gatewright_queue_unattended", waiting) == 1
    assert value("gatewright_queue_depth", {"queue": "intake", "pool": "none", "class": "none", "state": "waiting"}) == 0
    assert value("gatewright_dead_letters_open") == 1


async def test_a_queue_that_is_missing_hides_no_other(bus: JetStreamBus) -> None:
    metrics = Metrics("gatekeeper")
    await look(bus, (INTAKE_CONSUMER, task_consumer("worker", "nowhere")), metrics)
    assert b'gatewright_queue_depth{class="none",pool="none",queue="intake",state="waiting"} 0.0' in metrics.exposition()
    assert b'queue="worker"' not in metrics.exposition()


async def test_what_cannot_be_looked_at_is_not_shown_as_it_was(bus: JetStreamBus) -> None:
    metrics = Metrics("gatekeeper")
    await look(bus, consumers(), metrics)
    assert b"gatewright_queue_depth{" in metrics.exposition()
    await bus.close()
    await look(bus, consumers(), metrics)
    assert b"gatewright_queue_depth{" not in metrics.exposition()
    assert b"gatewright_dead_letters_open NaN" in metrics.exposition()
