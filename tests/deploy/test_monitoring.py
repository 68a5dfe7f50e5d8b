"""What we ship for Prometheus and Grafana names only what there is; promtool judges the rest where it can be had."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from gatewright.app.cli.app import app
from gatewright.bus.topology import ROLES
from gatewright.telemetry.metric_list import (
    FORGE_METRICS,
    METRICS,
    ClaimOutcome,
    ForgeOutcome,
    QueueClass,
    QueueName,
    RunOutcome,
    SandboxUse,
    Stage,
    SubmissionOutcome,
    TaskOutcome,
)
from tests.deploy.expressions import faults, label_values, metric_names
from tests.deploy.shipped import GRAFANA, MONITORING, ROOT, read_panels, read_rules, read_yaml
from tests.waiting import PATIENCE

RUNBOOK = ROOT / "docs" / "runbook.md"
#: Alerts that compare a counter with its past, as increase() does not see a series that appears.
OFFSETS = frozenset({"GatewrightGateNotEvaluated", "GatewrightForgeMergedElsewhere"})

CLOSED: dict[str, frozenset[str]] = {
    "role": frozenset(ROLES),
    "service": frozenset({*ROLES, "forge"}),
    "stage": frozenset(get_args(Stage)),
    "queue": frozenset(get_args(QueueName)),
    "class": frozenset(get_args(QueueClass)),
    "state": frozenset({"waiting", "in_hand"}),
    "outcome": frozenset(
        {*get_args(RunOutcome), *get_args(TaskOutcome), *get_args(SubmissionOutcome), *get_args(ClaimOutcome)}
        | {*get_args(ForgeOutcome)}
    ),
    "during": frozenset(get_args(SandboxUse)),
    "verdict": frozenset({"PASS", "FAIL"}),
}


def expressions() -> list[tuple[str, str]]:
    """Where each expression stands, and the expression as it is asked."""
    ours = [(rule["alert"], rule["expr"]) for rule in read_rules()]
    return ours + [(panel["title"], target["expr"]) for panel in read_panels() for target in panel["targets"]]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("place", "expression"), expressions(), ids=[place for place, _ in expressions()])
def test_every_expression_names_only_metrics_labels_and_values_that_there_are(place: str, expression: str) -> None:
    expression = expression.replace("$__rate_interval", "5m")
    assert faults(expression) == []
    for label, value in label_values(expression):
        assert value in CLOSED.get(label, {value}), f"{label}={value}"
    assert expression.count("(") == expression.count(")")


def test_names_that_do_not_exist_are_noticed() -> None:
    assert faults('sum by (queu) (gatewright_queue_dept{clas="x"})') == [
        "no metric gatewright_queue_dept",
        "no label clas",
        "no label queu",
    ]
    assert faults("rate(gatewright_run_duration_seconds[5m])") == ["no metric gatewright_run_duration_seconds"]
    assert faults("gatewright_runs_total_count") == ["no metric gatewright_runs_total_count"]
    assert faults("sum(rate(gatewright_runs_total[5m] offset 15m))") == []


def test_counters_are_never_shown_as_they_are() -> None:
    counters = {metric.name for metric in (*METRICS, *FORGE_METRICS) if metric.kind == "counter"}
    for place, expression in expressions():
        for name in metric_names(expression) & counters:
            plain = re.search(rf"(?<!\w){name}(\{{[^}}]*\}})?(?!\[)(\s|\)|$)", expression)
            assert plain is None or place in OFFSETS, f"{place}: {name}"


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: rule["alert"])
def test_every_alert_names_the_fault_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Gatewright[A-Z]\w+", rule["alert"])
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "runbook_url"}
    assert rule["annotations"]["summary"].endswith(".")
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor == rule["alert"].lower()
    assert anchor in anchors((ROOT / page).read_text())


def test_every_alert_is_unit_tested_to_fire_and_documented_once() -> None:
    names = [rule["alert"] for rule in read_rules()]
    assert len(set(names)) == len(names)
    tested = (MONITORING / "alerts_test.yml").read_text()
    assert [name for name in names if name not in tested] == []
    sections = re.split(r"^### (Gatewright\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]
    assert sorted(sections[::2]) == sorted(names)
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in read_rules()}
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        assert text.strip().startswith(f"*{severities[name]}.* **Meaning:**"), name
        assert "**Look at:**" in text, name
        assert "**Do:**" in text, name


def test_every_command_that_the_runbook_names_is_one() -> None:
    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    named = set(re.findall(r"`gatewright ([a-z]+)", RUNBOOK.read_text()))
    assert named - known == set()
    assert "doctor" in named


def test_all_services_that_show_metrics_are_scraped_where_compose_runs_them() -> None:
    config = read_yaml(MONITORING / "prometheus.yml")
    (job,) = [job for job in config["scrape_configs"] if job["job_name"] == "gatewright"]
    (discovery,) = job["dns_sd_configs"]
    assert set(discovery["names"]) == {*ROLES, "retention", "branches", "forge"}
    assert config["rule_files"] == ["alerts.yml"]
    assert {"source_labels": ["__meta_dns_name"], "target_label": "service"} in job["relabel_configs"]
    assert f"GATEWRIGHT_METRICS_PORT={discovery['port']}" in (ROOT / "Dockerfile").read_text()
    services = read_yaml(ROOT / "docker-compose.yml")["services"]
    assert set(discovery["names"]) <= set(services)


def test_grafana_finds_the_data_source_and_the_dashboard() -> None:
    (source,) = read_yaml(GRAFANA / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    (provider,) = read_yaml(GRAFANA / "provisioning" / "dashboards" / "gatewright.yml")["providers"]
    board = json.loads((GRAFANA / "dashboards" / "gatewright.json").read_text())
    (variable,) = board["templating"]["list"]
    assert (variable["type"], variable["query"], source["type"]) == ("datasource", "prometheus", "prometheus")
    assert variable["current"]["value"] == source["uid"]
    overlay = read_yaml(ROOT / "deploy" / "compose" / "monitoring.yml")["services"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in overlay
    mounted = dict(volume.split(":")[:2] for volume in overlay["grafana"]["volumes"])
    assert mounted["./deploy/monitoring/grafana/dashboards"] == provider["options"]["path"]
    assert mounted["./deploy/monitoring/grafana/provisioning"] == "/etc/grafana/provisioning"


def test_panels_are_whole_and_lie_side_by_side() -> None:
    board = json.loads((GRAFANA / "dashboards" / "gatewright.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in read_panels():
        assert panel["description"], panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_the_dashboard_shows_every_metric_of_the_list() -> None:
    shown = {name for panel in read_panels() for target in panel["targets"] for name in metric_names(target["expr"])}
    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {metric.name for metric in (*METRICS, *FORGE_METRICS)} - plain == set()


def test_the_tested_scaling_expression_is_the_shipped_one() -> None:
    chart = (ROOT / "deploy" / "helm" / "gatewright" / "templates" / "scaling.yaml").read_text()
    scaled = re.findall(r"query: >-\n +(.+)\n", chart)
    tried = [each.replace("{{ $role }}", "worker").replace("{{ $pool }}", "gpu") for each in scaled]
    assert len(tried) == 1
    assert faults(tried[0]) == []
    assert f"expr: {tried[0]}\n" in (MONITORING / "alerts_test.yml").read_text()


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool here (Debian: apt install prometheus)")
@pytest.mark.parametrize(
    "words", [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")]
)
def test_promtool_finds_nothing_wrong(words: tuple[str, ...]) -> None:
    judged = subprocess.run(
        [PROMTOOL or "", *words], cwd=MONITORING, check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool here (Debian: apt install prometheus)")
def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    """As recording rules, because that is how promtool reads single expressions."""
    asked = [target["expr"].replace("$__rate_interval", "5m") for panel in read_panels() for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    judged = subprocess.run(
        [PROMTOOL or "", "check", "rules", "panels.yml"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
