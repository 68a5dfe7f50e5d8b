"""`--network on-request`: a change that adds a package is tested with it, after people agreed, and never before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Stack, running_stack, wait_until
from tests.e2e.terminal import Terminal
from tests.e2e.test_puller import Cluster, GatedPages, write_policy
from tests.environments.registries import served
from tests.environments.wheels import index_of, make_wheel
from tests.git.repositories import MakeRepository, Repository
from tests.waiting import PATIENCE

TESTS = b"""import unittest
import a

class Values(unittest.TestCase):
    def test_value(self):
        self.assertEqual(a.a, 2)
"""
ADDS = b"""import pathlib
pathlib.Path('requirements.txt').write_text('needed==1.0\\nadded==1.0\\n')
pathlib.Path('a.py').write_text('import added, needed\\na = 2\\n')
"""
FILES = {
    "a.py": b"import needed\na = 1\n",
    "test_a.py": TESTS,
    "requirements.txt": b"needed==1.0\n",
    "tools/add.py": ADDS,
    "tools/edit.py": b"import pathlib\npathlib.Path('a.py').write_text('a = 2\\n')\n",
}
WORDS = ("--allow", "a.py", "--allow", "requirements.txt", "--allow-dependencies", "--test", "python -m unittest")
ADD = (*WORDS, "--exec", "python tools/add.py", "--env", "auto", "--network", "on-request", "--json")


class Changes:
    """Runs of one repository on a stack, from a host with the variables ``outside``."""

    def __init__(self, stack: Stack, repository: Repository, outside: Mapping[str, str]) -> None:
        self.stack, self.repository, self.outside = stack, repository, outside

    def run(self, *words: str, new: bool = True) -> dict[str, Any]:
        order = ("add a package",) if new else ()
        done = self.stack.process("run", *order, *words, cwd=self.repository.path, extra=self.outside)
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def change_version(self, folder: Path, version: str) -> None:
        """Have the change add this version of the package, which no other test pulls."""
        make_wheel(folder / "wheels", "added", version=version)
        adds = ADDS.replace(b"added==1.0", f"added=={version}".encode())
        self.repository.commit({"tools/add.py": adds}, "another version")

    def pending(self) -> list[dict[str, Any]]:
        listed = self.stack.command("approvals", "list", "--json")
        found: list[dict[str, Any]] = json.loads(listed.stdout)["approvals"]
        return [each["request"] for each in found]

    def decide(self, verdict: str) -> str:
        """Answer the one request; its id."""
        wait_until(lambda: bool(self.pending()), PATIENCE)
        (request,) = self.pending()
        assert (request["stage"], request["reason"]) == ("environment", "network"), request
        done = self.stack.process("approvals", verdict, request["request_id"])
        assert done.returncode == 0, done.stdout + done.stderr
        return str(request["run_id"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    base = tmp_path_factory.mktemp("cluster")
    base.chmod(0o755)
    with running_stack(base / "home", workers=1, stack=Cluster(base / "home", base / "srv")) as stack:
        assert isinstance(stack, Cluster)
        yield stack


@pytest.fixture
def changes(cluster: Cluster, tmp_path: Path, make_repository: MakeRepository) -> Changes:
    make_wheel(tmp_path / "wheels", "needed")
    make_wheel(tmp_path / "wheels", "added")
    outside = cluster.outside(tmp_path / "elsewhere", "operator")
    return Changes(cluster, make_repository("project", files=FILES), outside)


@contextmanager
def registry_and_puller(
    cluster: Cluster, folder: Path, pages: GatedPages | None = None, asked: list[str] | None = None
) -> Iterator[None]:
    """A registry of the wheels, or of ``pages``, that appends what it is asked to ``asked``, and a puller that may read it."""
    with served(index_of(folder / "wheels") if pages is None else pages, asked) as address:
        policies = write_policy(folder / "policies", address.removeprefix("http://"))
        with cluster.puller(index=address, policies=policies):
            yield


def test_an_approved_package_is_pulled_tested_and_lands(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    asked: list[str] = []
    with registry_and_puller(cluster, tmp_path, asked=asked), ThreadPoolExecutor(1) as pool:
        running = pool.submit(changes.run, *ADD)
        wait_until(lambda: bool(changes.pending()), PATIENCE)
        assert not any("added" in path for path in asked), "nothing is pulled before the yes"
        run_id = changes.decide("approve")
        result = running.result()
    assert result["status"] == "SUCCESS", result
    bundle = cluster.home / "runs" / run_id
    verified = cluster.process("verify", str(bundle))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (pulled,) = [
        each["payload"]
        for line in (bundle / "events.jsonl").read_text().splitlines()
        if (each := json.loads(line))["event_type"] == "environment_pulled"
    ]
    assert pulled["environments"][0]["ecosystem"] == "python"
    inventory = cluster.process("show", run_id, "--as", "inventory").stdout
    assert {line.split()[0] for line in inventory.splitlines() if line.split()} >= {"added", "needed"}


def test_a_rejected_package_is_pulled_after_another_yes_only(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    asked: list[str] = []
    with registry_and_puller(cluster, tmp_path, asked=asked), ThreadPoolExecutor(1) as pool:
        running = pool.submit(changes.run, *ADD)
        run_id = changes.decide("reject")
        result = running.result()
        assert (result["status"], result["failure"]["code"]) == ("FAILED", "approval_rejected")
        assert not any("added" in path for path in asked)
        running = pool.submit(changes.run, "--again", run_id, "--json", new=False)
        assert changes.decide("approve") != run_id
        assert running.result()["status"] == "SUCCESS"


def test_a_merge_queue_lands_a_run_in_its_pulled_packages(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    changes.change_version(tmp_path, "1.6")
    changes.repository.git("branch", "release")
    with registry_and_puller(cluster, tmp_path), ThreadPoolExecutor(1) as pool:
        running = pool.submit(changes.run, *ADD, "--land", "queue", "--target-ref", "release")
        run_id = changes.decide("approve")
        result = running.result()
    assert result["status"] == "SUCCESS", result
    assert b"added==1.6" in changes.repository.git("show", "release:requirements.txt")
    verified = cluster.process("verify", run_id)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_change_of_no_lock_asks_nobody(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    edit = (*WORDS, "--exec", "python tools/edit.py", "--env", "auto", "--network", "on-request", "--json")
    with registry_and_puller(cluster, tmp_path):
        result = changes.run(*edit)
    assert result["status"] == "SUCCESS", result
    events = (cluster.home / "runs" / result["run_id"] / "events.jsonl").read_text()
    assert "approval_requested" not in events
    assert "environment_pulled" not in events


def test_without_an_environment_no_packages_are_pulled(changes: Changes) -> None:
    result = changes.run(*WORDS, "--exec", "python3 tools/add.py", "--network", "on-request", "--json")
    assert (result["status"], result["failure"]["code"]) == ("FAILED", "environment_pull_unsupported"), result


def test_a_denied_network_names_the_way_to_the_packages(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    with registry_and_puller(cluster, tmp_path):
        result = changes.run(*WORDS, "--exec", "python tools/add.py", "--env", "auto", "--json")
    assert (result["status"], result["failure"]["code"]) == ("FAILED", "tests_failed"), result
    shown = cluster.process("show", result["run_id"]).stdout
    assert "--network on-request pulls those of the change" in shown


@pytest.mark.parametrize(("host", "code"), [("registry.example:1", "egress_registry_outside"), ("", "puller_missing")])
def test_packages_that_no_puller_can_make_fail_the_run(
    cluster: Cluster, changes: Changes, tmp_path: Path, host: str, code: str
) -> None:
    version = f"1.{2 + bool(host)}"  # no other test makes its environment
    changes.change_version(tmp_path, version)
    with served(index_of(tmp_path / "wheels")) as address, ThreadPoolExecutor(1) as pool:
        policies = write_policy(tmp_path / "policies", address.removeprefix("http://"))
        with cluster.puller(index=address, policies=policies):
            running = pool.submit(changes.run, *ADD)
            wait_until(lambda: bool(changes.pending()), PATIENCE)
        if host:
            refusing = write_policy(tmp_path / "refusing", host)
            with cluster.puller(index=address, policies=refusing):
                changes.decide("approve")
                result = running.result()
        else:
            changes.decide("approve")
            result = running.result()
    assert (result["status"], result["failure"]["code"]) == ("FAILED", code), result


@pytest.mark.long
def test_a_killed_gatekeeper_pulls_on_without_asking_again(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    changes.change_version(tmp_path, "1.1")
    pages = GatedPages(index_of(tmp_path / "wheels"))
    pages.gate.set()
    with registry_and_puller(cluster, tmp_path, pages), ThreadPoolExecutor(1) as pool:
        running = pool.submit(changes.run, *ADD)
        wait_until(lambda: bool(changes.pending()), PATIENCE)
        pages.gate.clear()
        pages.asked.clear()
        run_id = changes.decide("approve")
        assert pages.asked.wait(PATIENCE)
        assert cluster.kill("gatekeeper") == 1
        pages.gate.set()
        result = running.result()
    assert result["status"] == "SUCCESS", result
    events = (cluster.home / "runs" / run_id / "events.jsonl").read_text()
    assert events.count('"approval_requested"') == 1
    assert events.count('"environment_pulled"') == 1


@pytest.mark.long
def test_a_gatekeeper_killed_after_the_pull_tests_in_its_packages(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    changes.change_version(tmp_path, "1.4")
    with registry_and_puller(cluster, tmp_path), ThreadPoolExecutor(1) as pool, cluster.client() as client:
        running = pool.submit(changes.run, *ADD)
        run_id = changes.decide("approve")
        wait_until(lambda: client.get(run_id).pulled is not None, PATIENCE)
        assert cluster.kill("gatekeeper") == 1
        result = running.result()
    assert result["status"] == "SUCCESS", result
    events = (cluster.home / "runs" / run_id / "events.jsonl").read_text()
    assert [events.count(f'"{each}"') for each in ("approval_requested", "environment_pulled")] == [1, 1]


@pytest.mark.long
def test_a_puller_that_dies_and_starts_again_finishes_the_pull(cluster: Cluster, changes: Changes, tmp_path: Path) -> None:
    changes.change_version(tmp_path, "1.5")
    pages = GatedPages(index_of(tmp_path / "wheels"))
    pages.gate.set()
    with served(pages) as address, ThreadPoolExecutor(1) as pool:
        policies = write_policy(tmp_path / "policies", address.removeprefix("http://"))
        with cluster.puller(index=address, policies=policies) as first:
            running = pool.submit(changes.run, *ADD)
            wait_until(lambda: bool(changes.pending()), PATIENCE)
            pages.gate.clear()
            pages.asked.clear()
            run_id = changes.decide("approve")
            assert pages.asked.wait(PATIENCE)
            first.kill()
            first.wait()
        pages.gate.set()
        with cluster.puller(index=address, policies=policies):
            result = running.result()
    assert result["status"] == "SUCCESS", result
    assert (cluster.home / "runs" / run_id / "events.jsonl").read_text().count('"environment_pulled"') == 1


@dataclass(frozen=True)
class OwnRegistries(Stack):
    """A stack of a home folder whose owner has configured a registry."""

    index: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"PIP_INDEX_URL": f"{self.index}/simple"}


def test_the_owner_is_asked_at_the_terminal_and_again_for_a_repetition(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, make_repository: MakeRepository
) -> None:
    for name in ("needed", "added"):
        make_wheel(tmp_path / "wheels", name)
    repository = make_repository("project", files=FILES)
    base = tmp_path_factory.mktemp("own")
    base.chmod(0o755)
    with served(index_of(tmp_path / "wheels")) as address, ThreadPoolExecutor(1) as pool:
        own = OwnRegistries(base / "home", address)
        with running_stack(base / "home", workers=1, stack=own) as stack:
            terminal = Terminal(stack, repository.path, "run", "add a package", *ADD[:-1])
            terminal.read_until("Approve? [y/N]")
            assert "requirements.txt: Packages: 1 added (added ==1.0)." in terminal.shown
            assert "| +added==1.0" in terminal.shown
            terminal.type("y\n")
            assert terminal.end() == 0, terminal.shown
            run_id = terminal.shown.partition("? run-")[2].split()[0]
            repeating = pool.submit(stack.process, "replay", f"run-{run_id}", "--reexecute", cwd=repository.path)
            assert Changes(stack, repository, {}).decide("approve") != f"run-{run_id}"
            repeated = repeating.result()
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    assert "the same result" in repeated.stdout
