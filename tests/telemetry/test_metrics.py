"""The list of metrics is what is scraped and what the documentation says."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gatewright.telemetry.metrics import METRICS, Metrics

DOCUMENT = Path(__file__).parents[2] / "docs" / "observability.md"
ROW = re.compile(r"^\| `(gatewright_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)


def make_used_metrics() -> Metrics:
    metrics = Metrics("worker")
    metrics.task_taken(redelivered=True)
    metrics.task_ended("answered", 0.2)
    metrics.dead_letter("task_timeout")
    metrics.gate_decision("diff", "FAIL", "scope_violation", 0.01)
    metrics.run_ended("failed", 3.0)
    metrics.ledger_conflict()
    metrics.bus_reconnected()
    return metrics


def test_documentation_lists_exactly_the_metrics_there_are() -> None:
    documented = {row[0]: row[1:] for row in ROW.findall(DOCUMENT.read_text())}
    assert documented == {
        metric.name: (metric.kind, ", ".join(f"`{label}`" for label in metric.labels) or "none", metric.help)
        for metric in METRICS
    }


def test_everything_that_is_scraped_is_on_the_list_or_of_the_process() -> None:
    families = text_string_to_metric_families(make_used_metrics().exposition().decode())
    scraped = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {name for name in scraped if not name.startswith("process_")} == {metric.name for metric in METRICS}


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


def test_no_label_is_an_id() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    assert labels == {"role", "outcome", "code", "gate", "verdict", "version"}


def test_foreign_text_as_a_code_cannot_make_time_series() -> None:
    metrics = Metrics("worker")
    for number in range(50):
        metrics.dead_letter(f"made up {number}\n")
        metrics.gate_decision(f"Gate{number}", "FAIL", f"x\ud800{number}", 0.1)
    assert metrics.registry.get_sample_value("gatewright_dead_letters_total", {"role": "worker", "code": "other"}) == 50
    assert len(metrics.exposition().splitlines()) < 80


def test_two_processes_in_one_interpreter_do_not_share_counts() -> None:
    make_used_metrics()
    assert Metrics("worker").registry.get_sample_value("gatewright_ledger_conflicts_total") == 0
