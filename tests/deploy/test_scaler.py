"""No worker, fifty runs, as many workers as the chart's own query asks for, and none again: by a real Prometheus.

KEDA needs a cluster. Its rules for a trigger are few and are applied here by a loop that starts and ends real worker processes:
below the activation threshold there are none once the cooldown has passed, else the value divided by the threshold, rounded up,
between one and the maximum; where there is no value, what runs stays.

Beside the real gatekeeper Prometheus reads one that is behind: what it tells is the gatekeeper's own page as it was before any
run came. By it there is never a task, and nothing may be held back or taken away for that.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright import Client
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import bus_keys, seed_file
from tests.compose.pods import ROOT, rendered
from tests.deploy.test_prometheus import ask, free_port
from tests.e2e.stack import PREFIX, slow_request
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

PROMETHEUS = shutil.which("prometheus")
RUNS, MOST = 50, 3
VALUES = {"keda": {"enabled": True, "prometheus": "http://prometheus:9090", "maxReplicas": MOST, "cooldownSeconds": 3}}
EDIT = (
    b"import pathlib, sys\nfor each in sys.argv[2:]:\n    for file in pathlib.Path(each).rglob('*.py'):\n"
    b"        file.write_text(file.read_text() + '# seen\\n')\n"
)
FILES = {"tools/edit.py": EDIT, "tools/check.py": b"", **{f"src/m{number}/a.py": b"a = 1\n" for number in range(RUNS)}}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus here (Debian: apt install prometheus)"),
]


@dataclass
class ScalerLoop:
    """Worker processes, as many as KEDA would have of the Deployment that the ScaledObject names."""

    spec: dict[str, Any]
    base: str
    home: Path
    url: str
    crew: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: How many there were after each look.
    seen: list[int] = field(default_factory=list)
    quiet_since: float | None = None

    def look(self) -> None:
        """One poll of the trigger."""
        trigger = self.spec["triggers"][0]["metadata"]
        result = ask(self.base, "query", query=trigger["query"])["result"]
        if result:
            self._scale(float(result[0]["value"][1]), trigger)
        self.seen.append(len(self.crew))

    def _scale(self, value: float, trigger: dict[str, Any]) -> None:
        if value > float(trigger["activationThreshold"]):
            self.quiet_since = None
            wanted = min(self.spec["maxReplicaCount"], max(1, math.ceil(value / float(trigger["threshold"]))))
        else:
            self.quiet_since = self.quiet_since or time.monotonic()
            over = time.monotonic() - self.quiet_since >= self.spec["cooldownPeriod"]
            wanted = self.spec["minReplicaCount"] if over else len(self.crew)
        while len(self.crew) < wanted:
            self.crew.append(self._worker(len(self.seen), len(self.crew)))
        while len(self.crew) > wanted:
            self._end(self.crew.pop())

    def _worker(self, *number: int) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ["PATH"],
            "GATEWRIGHT_HOME": str(self.home),
            "GATEWRIGHT_NATS_URL": self.url,
            "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(self.home), "worker")),
            "GATEWRIGHT_ENVIRONMENTS": str(PREFIX),
            "GATEWRIGHT_METRICS_PORT": "-1",
        }
        log = self.home / "logs" / f"scaled-{'-'.join(map(str, number))}.log"
        argv = [sys.executable, "-P", "-m", "gatewright.services.worker"]
        with log.open("wb") as output:
            return subprocess.Popen(argv, env=environment, cwd=self.home, stdout=output, stderr=output)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def end_all(self) -> None:
        while self.crew:
            self._end(self.crew.pop())


def scaled_object(name: str) -> dict[str, Any]:
    found = [each for each in rendered(VALUES) if each["kind"] == "ScaledObject" and each["metadata"]["name"] == name]
    spec: dict[str, Any] = found[0]["spec"]
    return spec


class StaleGatekeeper:
    """Tells for ever what the gatekeeper at ``metrics`` told when this was made, and how often it was asked."""

    def __init__(self, metrics: str) -> None:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as answer:
            page, kind = answer.read(), answer.headers["Content-Type"]
        stale = self
        self.page: bytes = page
        self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stale.asked += 1
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


async def read_before_any_run(metrics: str) -> StaleGatekeeper:
    """Once the gatekeeper tells of the queue of workers, in which nothing lies."""
    wanted = b'gatewright_queue_depth{class="normal",pool="default",queue="worker",state="waiting"} 0.0'
    async with asyncio.timeout(PATIENCE):
        while True:
            stale = await asyncio.to_thread(StaleGatekeeper, metrics)
            if wanted in stale.page:
                return stale
            await asyncio.to_thread(stale.end)
            await asyncio.sleep(0.5)


def start_prometheus(folder: Path, targets: list[str], address: str) -> subprocess.Popen[bytes]:
    scrape = {"job_name": "gatewright", "static_configs": [{"targets": targets}]}
    settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    argv = [PROMETHEUS or "", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log)


def metrics_address(home: Path) -> str:
    lines = [json.loads(line) for line in (home / "logs" / "gatekeeper.log").read_text().splitlines()]
    port = next(line["metrics_port"] for line in lines if line.get("event") == "service_started")
    return f"127.0.0.1:{port}"


async def test_workers_scale_with_the_query_and_back_to_zero(tmp_path: Path, make_repository: MakeRepository) -> None:
    project, home = make_repository("project", files=FILES).path, tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    roles = ("gatekeeper", "pm", "techlead", "reviewer", "testrunner")
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared")))}
    stack = Supervisor(StackOptions(home=home, base_environment=around, environments=(PREFIX,), shared=True, roles=roles))
    await stack.start()
    address = f"127.0.0.1:{free_port()}"
    await stack.ready(60.0)
    stale = await read_before_any_run(metrics_address(home))
    prometheus = start_prometheus(tmp_path, [metrics_address(home), stale.address], address)
    loop = ScalerLoop(scaled_object("gatewright-worker"), f"http://{address}", home, stack.address.url)
    try:
        async with Client.connect(stack.address, requested_by="tests") as client:
            requests = [
                replace(slow_request(project, 0), allowed_paths=(f"src/m{number}",), idempotency_key=f"scaled-{number:04}")
                for number in range(RUNS)
            ]
            ids = await asyncio.gather(*(client.submit_request(each, patience=PATIENCE) for each in requests))
            async with asyncio.timeout(400):
                ends = asyncio.gather(*(client.wait(run_id) for run_id in ids))
                while not (ends.done() and loop.seen and loop.seen[-1] == 0):
                    try:
                        await asyncio.to_thread(loop.look)
                    except OSError:
                        assert prometheus.poll() is None  # it is not up yet
                    await asyncio.sleep(1)
            runs = await ends
        assert [run.status for run in runs] == ["SUCCESS"] * RUNS
        assert max(loop.seen) == MOST
        assert loop.seen[-1] == 0
        assert stale.asked > len(loop.seen) / 2
    finally:
        stale.end()
        loop.end_all()
        prometheus.terminate()
        prometheus.wait(30)
        await stack.stop()
