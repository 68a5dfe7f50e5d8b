"""``--env auto`` on a host that has only the bus: a puller beside the roles prepares what the baseline's files name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.bus.identities import PULLER, bus_keys, seed_file
from gatewright.sandbox.environments import EGRESS_LOG
from tests.e2e.stack import Stack, running_stack, wait_until
from tests.environments.registries import Reply, served
from tests.environments.wheels import index_of, make_wheel
from tests.git.repositories import MakeRepository
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE

TESTS = b"""import unittest
import a, needed

class Values(unittest.TestCase):
    def test_both(self):
        self.assertEqual((a.a, needed.version), (2, "1.0"))
"""
FILES = {
    "a.py": b"a = 1\n",
    "test_a.py": TESTS,
    "requirements.txt": b"needed==1.0\n",
    "tools/change.py": b"import pathlib\npathlib.Path('a.py').write_text('a = 2\\n')\n",
}
WORDS = ("--allow", "a.py", "--exec", "python tools/change.py", "--test", "python -m unittest", "--env", "auto", "--json")


@dataclass(frozen=True)
class Cluster(Stack):
    """A stack whose roles see the environments of a puller."""

    shared: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        own = {"GATEWRIGHT_ENVIRONMENTS": f"{self.shared}/environments/*", "GATEWRIGHT_OWN_REGISTRIES": "false"}
        return super().environment | own

    def outside(self, home: Path, identity: str) -> dict[str, str]:
        """The variables of a host that has the bus, and one identity."""
        seed = seed_file(bus_keys(self.home), identity)
        return {"GATEWRIGHT_HOME": str(home), "GATEWRIGHT_NATS_URL": self.state.url, "GATEWRIGHT_NATS_SEED": str(seed)}

    @contextlib.contextmanager
    def puller(self, *, index: str, policies: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A puller for the time of a block; it is not waited for."""
        own = {"GATEWRIGHT_POLICIES": str(policies), "PIP_INDEX_URL": f"{index}/simple", "PATH": os.environ["PATH"]}
        variables = {**self.outside(self.shared, PULLER), **own, "HOME": str(self.home), "TMPDIR": str(self.home)}
        process = subprocess.Popen((sys.executable, "-m", "gatewright.app.puller"), env=variables)
        with killed_on_failure(process):
            wait_until(lambda: any("puller" in name for name in self.connections()))
            yield process
            process.terminate()
            process.wait()


def write_policy(folder: Path, host: str) -> Path:
    folder.mkdir()
    source = {"name": "own", "hosts": [host], "private": True, "http": True, "ecosystem": "python", "index": "/simple"}
    (folder / "egress.json").write_text(json.dumps({"version": "1", "sources": [source]}))
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("cluster")
    base.chmod(0o755)
    with running_stack(base / "home", workers=1, stack=Cluster(base / "home", base / "srv")) as stack:
        assert isinstance(stack, Cluster)
        yield stack


def test_a_run_from_a_host_with_only_the_bus_gets_its_environment(
    cluster: Cluster, tmp_path: Path, make_repository: MakeRepository
) -> None:
    make_wheel(tmp_path / "wheels", "needed")
    asked: list[str] = []
    repository = make_repository("project", files=FILES)
    outside = cluster.outside(tmp_path / "elsewhere", "publisher")
    with served(index_of(tmp_path / "wheels"), asked) as address:
        policies = write_policy(tmp_path / "policies", address.removeprefix("http://"))
        with cluster.puller(index=address, policies=policies):
            done = cluster.command("run", "a change", *WORDS, cwd=repository.path, extra=outside)
            result = json.loads(done.stdout.splitlines()[-1])
            assert (done.returncode, result["status"]) == (0, "SUCCESS"), done.stdout + done.stderr
            requests = len(asked)
            assert requests > 0
            words = (*WORDS, "--repo", f"file://{repository.path}")
            again = cluster.command("run", "a change", *words, cwd=tmp_path, extra=outside)
            assert again.returncode == 0, again.stdout + again.stderr
            assert len(asked) == requests, "the same packages are installed once, also for a repository with a URL"
    assert not (tmp_path / "elsewhere").exists()
    bundle = cluster.home / "runs" / result["run_id"]
    (log,) = (cluster.shared / "environments").glob(f"*/{EGRESS_LOG}")
    assert len(log.read_text().splitlines()) == requests
    assert (bundle / "artifacts" / hashlib.sha256(log.read_bytes()).hexdigest()).exists()
    listed = cluster.command("show", result["run_id"], "--as", "inventory").stdout
    assert any(line.split()[:2] == ["needed", "1.0"] for line in listed.splitlines())
    assert cluster.command("verify", str(bundle)).returncode == 0


class GatedPages(dict[str, bytes | Reply]):
    """Pages that are served once the gate is open."""

    def __init__(self, pages: Mapping[str, bytes | Reply]) -> None:
        super().__init__(pages)
        self.asked, self.gate = threading.Event(), threading.Event()

    def get(self, path: str, default: bytes | Reply) -> bytes | Reply:  # type: ignore[override]
        self.asked.set()
        self.gate.wait(PATIENCE)
        return super().get(path, default)


@pytest.mark.long
def test_another_puller_finishes_the_order_of_a_killed_one(
    cluster: Cluster, tmp_path: Path, make_repository: MakeRepository
) -> None:
    make_wheel(tmp_path / "wheels", "needed", version="1.1")
    files = {**FILES, "requirements.txt": b"needed==1.1\n", "test_a.py": TESTS.replace(b"1.0", b"1.1")}
    repository = make_repository("project", files=files)
    pages = GatedPages(index_of(tmp_path / "wheels"))
    outside = cluster.outside(tmp_path / "elsewhere", "publisher")
    with served(pages) as address, ThreadPoolExecutor(1) as pool:
        policies = write_policy(tmp_path / "policies", address.removeprefix("http://"))
        with cluster.puller(index=address, policies=policies) as first:
            running = pool.submit(cluster.process, "run", "a change", *WORDS, cwd=repository.path, extra=outside)
            assert pages.asked.wait(PATIENCE)
            first.kill()
            first.wait()
        pages.gate.set()
        with cluster.puller(index=address, policies=policies):
            done = running.result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "SUCCESS"


@pytest.mark.parametrize(("starts", "code"), [(False, "puller_missing"), (True, "egress_policy_missing")])
def test_a_run_that_no_puller_can_serve_is_refused_with_advice(
    cluster: Cluster, tmp_path: Path, make_repository: MakeRepository, *, starts: bool, code: str
) -> None:
    repository = make_repository("project", files=FILES)
    (tmp_path / "empty").mkdir()
    puller = cluster.puller(index="http://127.0.0.1:1", policies=tmp_path / "empty")
    with puller if starts else contextlib.nullcontext():
        done = cluster.command(
            "run", "a change", *WORDS, cwd=repository.path, extra=cluster.outside(tmp_path / "elsewhere", "operator")
        )
    assert done.returncode == 3
    assert json.loads(done.stdout.splitlines()[-1])["failure"]["code"] == code
