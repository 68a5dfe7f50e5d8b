"""What a running system shows to Prometheus: the whole list, nothing else, and no more of it for what strangers send."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gatewright.app.stack.state import Member, StackState
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import REQUEST_SUBJECT, ROLES, claim_subject, result_subject, task_subject
from gatewright.contracts import Error, codec
from gatewright.run.state import run_id_of
from gatewright.telemetry.metric_list import BUDGET_USED
from gatewright.telemetry.metrics import METRICS
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, slow_request, wait_until
from tests.waiting import PATIENCE

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"
#: A label value that is an id, a path or an address has one of these.
FOREIGN = re.compile(r"run-[0-9a-f]|[/\\:@]|[0-9a-f]{12}|\.w\d")
STRANGERS = 60


def services(stack: Stack) -> list[Member]:
    """The processes of the six roles; the NATS server is no service of ours."""
    return [member for role in ROLES for member in stack.members(role)]


def scrape(stack: Stack) -> dict[str, list[Metric]]:
    """Every process of the stack by its name, with what it shows now."""
    shown = {}
    for member in services(stack):
        lines = (stack.home / "logs" / f"{member.name}.log").read_text().splitlines()
        started = [line for line in map(json.loads, lines) if line["event"] == "service_started"]
        address = f"http://127.0.0.1:{started[-1]['metrics_port']}/metrics"
        with urllib.request.urlopen(address) as answer:
            shown[member.name] = list(text_string_to_metric_families(answer.read().decode()))
    return shown


def name_of(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def series(stack: Stack) -> dict[str, int]:
    """How many time series of ours each process shows."""
    return {
        process: sum(len(family.samples) for family in families if family.name.startswith("gatewright_"))
        for process, families in scrape(stack).items()
    }


def value(stack: Stack, process: str, name: str, **labels: str) -> float | None:
    """A sample of a process; None where it is not there."""
    samples = (sample for family in scrape(stack)[process] for sample in family.samples)
    return next((sample.value for sample in samples if (sample.name, sample.labels) == (name, labels)), None)


async def send(stack: StackState, identity: str, *messages: tuple[str, bytes, str, str]) -> None:
    """Subject, payload, schema and message id of each."""
    bus = await JetStreamBus.connect(stack.address(identity), name="stranger")
    for subject, data, schema, message_id in messages:
        await bus.publish(subject, data, schema=schema, message_id=message_id)
    await bus.close()


async def claim(stack: StackState, data: bytes) -> None:
    """Say as a worker that a task is in hand; one that is done within its first beat says nothing."""
    bus = await JetStreamBus.connect(stack.address("worker"), name="stranger")
    await bus.broadcast(claim_subject("worker"), data)
    await bus.close()


def test_a_running_system_shows_every_documented_metric_and_no_other(stack: Stack, make_project: MakeProject) -> None:
    """`.ci/reference.py` renders docs/observability.md from the same list."""
    code, result = stack.run(make_project(), "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert code == 0, result
    asyncio.run(send(stack.state, "publisher", (REQUEST_SUBJECT, b"{", "run_request.v1", "no document")))
    wait_until(lambda: value(stack, "gatekeeper", "gatewright_dead_letters_total", role="gatekeeper", code="malformed") == 1)
    refused = {"role": "worker", "outcome": "refused"}
    before = value(stack, "gatekeeper", "gatewright_status_claims_total", **refused) or 0
    asyncio.run(claim(stack.state, b"{"))
    wait_until(lambda: (value(stack, "gatekeeper", "gatewright_status_claims_total", **refused) or 0) > before)
    with_samples: set[str] = set()
    for process, families in scrape(stack).items():
        ours = {name_of(family): family for family in families if family.name.startswith("gatewright_")}
        assert set(ours) == {metric.name for metric in METRICS}, process
        for metric in METRICS:
            assert (ours[metric.name].type, ours[metric.name].documentation) == (metric.kind, metric.help)
        with_samples |= {name for name, family in ours.items() if family.samples}
        values = {label for family in families for sample in family.samples for label in sample.labels.values()}
        assert {label for label in values if FOREIGN.search(label)} == set(), process
    # The system has no budgets.json.
    assert {metric.name for metric in METRICS} - with_samples == {BUDGET_USED.name}


@pytest.mark.long
def test_a_run_records_durations_and_served_queues(stack: Stack, make_project: MakeProject) -> None:
    stages = ("S0", "S1", "S2", "S3", "S4", "S6")

    def left(stage: str) -> float:
        return value(stack, "gatekeeper", "gatewright_stage_duration_seconds_count", stage=stage) or 0

    before = {stage: left(stage) for stage in stages}
    ended = value(stack, "gatekeeper", "gatewright_runs_total", outcome="success") or 0
    code, result = stack.run(make_project(), "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert code == 0, result
    assert {stage: left(stage) - before[stage] for stage in stages} == dict.fromkeys(stages, 1.0)
    assert value(stack, "gatekeeper", "gatewright_runs_total", outcome="success") == ended + 1
    worker = {"queue": "worker", "pool": "default", "class": "normal"}
    # Both workers ask, and the look comes every few seconds.
    wait_until(lambda: value(stack, "gatekeeper", "gatewright_queue_open_pulls", **worker) == 2)
    assert value(stack, "gatekeeper", "gatewright_queue_depth", state="waiting", **worker) == 0
    assert value(stack, "gatekeeper", "gatewright_queue_unattended", **worker) == 0
    for member in services(stack):
        assert value(stack, member.name, "gatewright_ready", role=member.name.partition("-")[0]) == 1


@pytest.mark.long
def test_foreign_codes_schemas_and_pools_create_no_time_series(own_stack: Stack) -> None:
    state = own_stack.state
    wait_until(lambda: value(own_stack, "gatekeeper", "gatewright_dead_letters_open") == 0)
    before = series(own_stack)
    forged = [
        Error(
            code=f"code_{number}", message="made up", run_id=run_id_of(str(number)), task_id=f"task{number:08}", role="worker"
        )
        for number in range(STRANGERS)
    ]
    documents = [(result_subject("worker"), codec.encode(error), "error.v1", f"forged:{error.run_id}") for error in forged]
    garbage = [(REQUEST_SUBJECT, b"{", f"schema_{number}.v1", f"garbage:{number}") for number in range(STRANGERS)]
    tasks = [(task_subject("worker"), b"{}", f"schema_{number}.v1", f"task:{number}") for number in range(STRANGERS)]
    pools = [(task_subject("worker", f"pool{number}"), b"{}", "x.v1", f"pool:{number}") for number in range(STRANGERS)]
    asyncio.run(send(state, "worker", *documents))
    asyncio.run(send(state, "publisher", *garbage))
    asyncio.run(send(state, "operator", *tasks, *pools))
    wait_until(lambda: (value(own_stack, "gatekeeper", "gatewright_dead_letters_open") or 0) >= 2 * STRANGERS)
    grown = {process: count - before[process] for process, count in series(own_stack).items()}
    # One or two reason codes each, and the buckets of a histogram that was empty.
    assert max(grown.values()) < 30, grown
    dead = sum(
        sample.value
        for families in scrape(own_stack).values()
        for family in families
        for sample in family.samples
        if sample.name == "gatewright_dead_letters_total"
    )
    assert dead >= 2 * STRANGERS


@pytest.mark.long
def test_a_gatekeeper_with_a_full_evidence_disk_is_not_ready(own_stack: Stack, make_project: MakeProject) -> None:
    """A file in the place of the folder of bundles: root, too, is refused."""

    def ready() -> float | None:
        return value(own_stack, "gatekeeper", "gatewright_ready", role="gatekeeper")

    runs = own_stack.home / "runs"
    runs.touch()
    with own_stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 0.0), patience=PATIENCE)
        wait_until(lambda: ready() == 0)
        assert value(own_stack, "gatekeeper", "gatewright_stage_duration_seconds_count", stage="FAILED") is None
        runs.unlink()
        wait_until(lambda: ready() == 1)
        assert client.wait(run_id, timeout=PATIENCE).status == "SUCCESS"
    assert value(own_stack, "gatekeeper", "gatewright_stage_duration_seconds_count", stage="FAILED") is None
