"""The list of metrics is what is scraped, and nothing from outside can make it grow."""

from __future__ import annotations

import re
from typing import get_args

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from gatewright.bus.topology import DEFAULT_CLASS, ROLES, TASK_CLASSES, TASK_ROLES
from gatewright.run.states import State
from gatewright.telemetry.metric_list import EXPIRY_METRICS, FORGE_METRICS, QueueClass, QueueName, Stage
from gatewright.telemetry.metrics import METRICS, MOST_VALUES, Metrics, QueueLook


def make_used_metrics(role: str = "worker") -> Metrics:
    metrics = Metrics(role)
    metrics.task_taken(redelivered=True)
    metrics.task_ended("answered", 0.2)
    metrics.dead_letter("task_timeout")
    metrics.dead_letters_open(2)
    metrics.queues({("worker", "default", "high"): QueueLook(3, 1, 0, paused=True, oldest=7.5, unattended=3)})
    metrics.publisher_rooms({("default", "intake"): 0.25})
    metrics.gate_decision("diff", "FAIL", "scope_violation", 0.01)
    metrics.submission("refused", "malformed")
    metrics.run_ended("failed", 3.0)
    metrics.stage_left("S2", 2.0)
    metrics.lock_waited_for()
    metrics.lock_wait_over(0.3)
    metrics.sandbox_failed("task")
    metrics.bundles_owed(1)
    metrics.budgets_used({"team": 0.5})
    metrics.runs_silent(1)
    metrics.status_claim("worker", "counted")
    metrics.merge_queues(entries=3, held=1)
    metrics.merge_landed([60.0, 90.0])
    metrics.merge_left("tests_failed")
    metrics.merge_position_red()
    metrics.ledger_conflict()
    metrics.bus_reconnected()
    return metrics


def series_of(metrics: Metrics) -> int:
    return sum(1 for line in metrics.exposition().splitlines() if line.startswith(b"gatewright_"))


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in (*METRICS, *EXPIRY_METRICS, *FORGE_METRICS):
        assert metric.name.startswith("gatewright_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert (metric.kind == "histogram") == bool(metric.buckets), metric.name
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")
        assert metric.help.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_everything_that_is_scraped_is_on_the_list_or_of_the_process() -> None:
    families = list(text_string_to_metric_families(make_used_metrics().exposition().decode()))
    scraped = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {name for name in scraped if not name.startswith("process_")} == {metric.name for metric in METRICS}
    assert [family.name for family in families if not family.samples] == []


def test_a_duration_leads_to_its_trace_where_the_scraper_takes_openmetrics() -> None:
    metrics = Metrics("worker")
    metrics.task_ended("answered", 0.2, "ab" * 16)
    metrics.task_ended("answered", 0.3, 'not"} a trace')
    metrics.gate_decision("diff", "PASS", "ok", 0.001, "cd" * 16)
    metrics.run_ended("success", 2.0, "ef" * 16)
    metrics.stage_left("S2", 2.0)
    shown = {
        (sample.name, sample.exemplar.labels["trace_id"])
        for family in open_metrics_families(metrics.open_exposition().decode())  # type: ignore[no-untyped-call]  # the client has no types for it
        for sample in family.samples
        if sample.exemplar
    }
    assert shown == {
        ("gatewright_task_duration_seconds_bucket", "ab" * 16),
        ("gatewright_gate_duration_seconds_bucket", "cd" * 16),
        ("gatewright_run_duration_seconds_bucket", "ef" * 16),
    }
    assert b"trace" not in metrics.exposition()


def test_both_formats_show_the_same() -> None:
    metrics = make_used_metrics()
    plain = text_string_to_metric_families(metrics.exposition().decode())
    rich = open_metrics_families(metrics.open_exposition().decode())  # type: ignore[no-untyped-call]  # the client has no types for it
    assert {sample.name for family in plain for sample in family.samples} == {
        sample.name for family in rich for sample in family.samples
    }


def test_counts_and_durations_arrive() -> None:
    metrics = make_used_metrics()

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("gatewright_tasks_total", role="worker", outcome="answered") == 1
    assert value("gatewright_tasks_running", role="worker") == 0
    assert value("gatewright_task_duration_seconds_bucket", role="worker", le="0.25") == 1
    assert value("gatewright_task_duration_seconds_bucket", role="worker", le="0.1") == 0
    assert value("gatewright_redeliveries_total", role="worker") == 1
    assert value("gatewright_gate_decisions_total", gate="diff", verdict="FAIL", code="scope_violation") == 1
    assert value("gatewright_runs_total", outcome="failed") == 1
    assert value("gatewright_submissions_total", outcome="refused", code="malformed") == 1
    assert value("gatewright_stage_duration_seconds_sum", stage="S2") == 2
    assert value("gatewright_lock_wait_seconds_count") == value("gatewright_lock_waits_total") == 1
    assert value("gatewright_sandbox_failures_total", role="worker", during="task") == 1
    assert value("gatewright_bundles_owed") == 1
    assert value("gatewright_dead_letters_open") == 2


def test_a_queue_is_shown_only_while_it_can_be_read() -> None:
    metrics = make_used_metrics()
    labels = {"queue": "worker", "pool": "default", "class": "high"}

    def value(name: str, **more: str) -> float | None:
        return metrics.registry.get_sample_value(f"gatewright_queue_{name}", {**labels, **more})

    assert (value("depth", state="waiting"), value("depth", state="in_hand"), value("oldest_age_seconds")) == (3, 1, 7.5)
    assert (value("open_pulls"), value("unattended"), value("paused")) == (0, 3, 1)
    metrics.queues({})
    metrics.dead_letters_open(None)
    assert b"gatewright_queue_depth{" not in metrics.exposition()
    assert b"gatewright_queue_oldest_age_seconds{" not in metrics.exposition()
    assert b"gatewright_dead_letters_open NaN" in metrics.exposition()


def test_readiness_is_asked_for_at_every_scrape() -> None:
    metrics, ready = Metrics("pm"), [False]
    metrics.show_readiness(lambda: ready[0])
    assert b'gatewright_ready{role="pm"} 0.0' in metrics.exposition()
    ready[0] = True
    assert b'gatewright_ready{role="pm"} 1.0' in metrics.exposition()


def test_what_is_known_beforehand_is_zero_from_the_start() -> None:
    """Else Prometheus does not see the first failure: it appears as 1 and does not rise."""
    worker, gatekeeper = Metrics("worker").exposition(), Metrics("gatekeeper").exposition()
    assert b'gatewright_sandbox_failures_total{during="task",role="worker"} 0.0' in worker
    assert b'gatewright_tasks_total{outcome="refused",role="worker"} 0.0' in worker
    assert b'gatewright_runs_total{outcome="failed"} 0.0' in gatekeeper
    assert b"gatewright_runs_total{" not in worker


def test_no_label_is_an_id() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    ours = {"role", "outcome", "code", "gate", "verdict", "version", "queue", "pool", "class", "state", "stage", "during"}
    # Publishers and budgets have names in the operator's own configuration; publishers beyond ``MOST_PUBLISHERS`` share one.
    assert labels == ours | {"publisher", "room", "budget"}


def test_label_values_are_those_of_the_topology_and_the_ledger() -> None:
    assert set(get_args(QueueName)) == {"intake", "results", "exhausted", *TASK_ROLES, "other"}
    assert set(get_args(QueueClass)) == {*TASK_CLASSES, "none"}
    assert DEFAULT_CLASS in get_args(QueueClass)
    assert set(get_args(Stage)) == set(get_args(State))
    assert {*TASK_ROLES, "gatekeeper"} == set(ROLES)


def test_foreign_text_as_a_code_cannot_make_time_series() -> None:
    metrics = Metrics("worker")
    before = series_of(metrics)
    for number in range(50):
        metrics.dead_letter(f"made up {number}\n")
        metrics.gate_decision(f"Gate{number}", "FAIL", f"x\ud800{number}", 0.1)
    assert metrics.registry.get_sample_value("gatewright_dead_letters_total", {"role": "worker", "code": "other"}) == 50
    assert series_of(metrics) < before + 20


def test_codes_that_look_real_cannot_make_time_series_without_end() -> None:
    metrics = Metrics("worker")
    metrics.dead_letter("task_timeout")
    for number in range(5_000):
        metrics.dead_letter(f"code_{number}")
        metrics.gate_decision(f"gate_{number % 500}", "FAIL", f"code_{number}", 0.1)
        metrics.submission("refused", f"code_{number}")
    metrics.dead_letter("task_timeout")
    value = metrics.registry.get_sample_value
    assert value("gatewright_dead_letters_total", {"role": "worker", "code": "task_timeout"}) == 2
    assert value("gatewright_dead_letters_total", {"role": "worker", "code": "other"}) == 5_001 - MOST_VALUES
    codes = re.findall(rb'^gatewright_dead_letters_total\{code="(\w+)"', metrics.exposition(), re.MULTILINE)
    gates = re.findall(rb'^gatewright_gate_duration_seconds_count\{gate="(\w+)"', metrics.exposition(), re.MULTILINE)
    assert (len(codes), len(gates)) == (MOST_VALUES + 1, MOST_VALUES + 1)
    assert len(metrics.exposition()) < 1_000_000


def test_two_processes_in_one_interpreter_do_not_share_counts() -> None:
    make_used_metrics()
    assert Metrics("worker").registry.get_sample_value("gatewright_ledger_conflicts_total") == 0
