"""A real Prometheus, where there is one, scrapes a real system by our rules and answers every question of the dashboard."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.shipped import MONITORING, read_panels, read_rules, read_yaml
from tests.e2e.stack import Stack, running_stack, wait_until
from tests.git.repositories import MakeRepository

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus here (Debian: apt install prometheus)")

FILES = {"src/a.py": b"a = 1\n", "tools/edit.py": b"import pathlib\npathlib.Path('src/a.py').write_text('a = 2\\n')\n"}
#: Panels that show nothing as long as nothing goes wrong, and alerts that have no series as long as all are well.
QUIET = {
    "Alerts that fire",
    "Calls of forges per minute",
    "Dead letters per hour",
    "Delay of forges",
    "Merges without proof",
    "Refusals per hour",
    "Runs for change requests per hour",
    "Silent runs, and claims per minute",
    "Streams of publishers",
    "Unserved messages and paused queues",
    "Waits for locks",
}
BUDGETS = {
    "version": "1",
    "run_default": {"tokens": 1000},
    "budgets": [{"name": "all", "publishers": ["*"], "repositories": ["*"], "period": "day", "tokens": 1_000_000}],
}


@dataclass(frozen=True)
class StackWithBudget(Stack):
    """A stack whose operator limits what all publishers use together."""

    @property
    def environment(self) -> dict[str, str]:
        policies = self.home.parent / "policies"
        policies.mkdir(parents=True, exist_ok=True)
        (policies / "budgets.json").write_text(json.dumps(BUDGETS))
        return {**super().environment, "GATEWRIGHT_POLICIES": str(policies)}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def ask(base: str, path: str, **query: str) -> Any:
    url = f"{base}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own process, on loopback
        return json.load(answer)["data"]


def targets(stack: Stack) -> list[dict[str, Any]]:
    """The processes of an embedded stack, with the labels that DNS gives under compose."""
    found = []
    for member in stack.state.members:
        log = stack.home / "logs" / f"{member.name}.log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        ports = [line["metrics_port"] for line in lines if line.get("event") == "service_started"]
        if ports:
            found.append({"targets": [f"127.0.0.1:{ports[-1]}"], "labels": {"service": member.name.partition("-")[0]}})
    return found


@contextlib.contextmanager
def running_prometheus(directory: Path, stack: Stack) -> Iterator[str]:
    """Our own configuration, with the addresses of this stack in place of DNS, and less patience."""
    config = read_yaml(MONITORING / "prometheus.yml")
    job = next(job for job in config["scrape_configs"] if job["job_name"] == "gatewright")
    del job["dns_sd_configs"], job["relabel_configs"]
    job["static_configs"] = targets(stack)
    config["scrape_configs"] = [job]
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    (directory / "prometheus.yml").write_text(json.dumps(config))
    shutil.copy(MONITORING / "alerts.yml", directory)
    address = f"127.0.0.1:{free_port()}"
    argv = [PROMETHEUS or "", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    argv.append("--enable-feature=exemplar-storage")
    with (directory / "log").open("wb") as log, subprocess.Popen(argv, cwd=directory, stdout=log, stderr=log) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def exemplars(base: str) -> dict[str, set[str]]:
    """The traces that Prometheus keeps beside the buckets of each histogram."""
    asked = '{__name__=~"gatewright_(run|gate|task|stage)_duration_seconds_bucket"}'
    now = time.time()
    kept: dict[str, set[str]] = {}
    for found in ask(base, "query_exemplars", query=asked, start=str(now - 600), end=str(now + 60)):
        name = found["seriesLabels"]["__name__"].removeprefix("gatewright_").removesuffix("_duration_seconds_bucket")
        kept.setdefault(name, set()).update(each["labels"]["trace_id"] for each in found["exemplars"])
    return kept


def is_scraping(base: str) -> bool:
    """Every target answers, and the queues have been seen."""
    try:
        active = ask(base, "targets", state="active")["activeTargets"]
        seen = ask(base, "query", query="gatewright_queue_depth")["result"]
    except OSError:
        return False
    return bool(active and seen) and {target["health"] for target in active} == {"up"}


@pytest.mark.long
def test_prometheus_scrapes_every_service_and_answers_what_the_dashboard_asks(
    tmp_path: Path, make_repository: MakeRepository
) -> None:
    project = make_repository("project", files=FILES).path
    home = tmp_path / "home"
    with running_stack(home, workers=2, stack=StackWithBudget(home)) as stack, running_prometheus(tmp_path, stack) as base:
        wait_until(lambda: is_scraping(base))
        code, result = stack.run(project, "--allow", "src", "--exec", "python tools/edit.py", "--test", "python tools/edit.py")
        assert code == 0, result
        ended = 'increase(gatewright_stage_duration_seconds_count{stage="S6"}[1m])'
        wait_until(lambda: bool(ask(base, "query", query=ended)["result"]))
        time.sleep(2)
        with stack.client() as client:
            trace = next(iter(client.events(result["run_id"]))).trace_id
        assert exemplars(base) == {name: {trace} for name in ("run", "gate", "task", "stage")}
        logged = "".join(log.read_text() for log in (stack.home / "logs").glob("*.log"))
        lines = [json.loads(line) for line in logged.splitlines() if result["run_id"] in line and '"run_id"' in line]
        assert len(lines) > 10
        assert {line["event"] for line in lines if line.get("trace_id") != trace} == set()
        silent = set()
        for panel in read_panels():
            for target in panel["targets"]:
                found = ask(base, "query", query=target["expr"].replace("$__rate_interval", "1m"))
                if not found["result"]:
                    silent.add(panel["title"])
        assert silent <= QUIET
        groups = ask(base, "rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["name"]: rule["health"] for rule in rules} == {rule["alert"]: "ok" for rule in read_rules()}
        assert [rule["name"] for rule in rules if rule["state"] != "inactive"] == []
