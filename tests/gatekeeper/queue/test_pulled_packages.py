"""Entries of a merge queue whose packages were pulled: tested in these on the new base, or taken out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.vocabulary import Environment, Scope
from gatewright.queue.events import EntryLeft, QueueHeld, QueueResumed
from gatewright.run.events import ChangedOrder, EnvironmentPulled
from gatewright.run.state import Run, run_id_of
from gatewright.services.gatekeeper.gates.change.packages import order_digest_on
from gatewright.services.gatekeeper.queue.composing import Composer
from tests.gatekeeper.queue.cluster import Cluster, Connect, make_report, open_cluster
from tests.git.repositories import MakeRepository

PULLED = "/srv/environments/pulled"
STANDING = QueuePolicy(standing_commands=(("true",),))


@pytest.fixture
async def cluster(connect: Connect, make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Cluster]:
    repository = make_repository(files={"README.md": b"read me\n", "requirements.txt": b"needed==1.0\n"})
    async with open_cluster(connect, tmp_path, repository, policy=STANDING) as opened:
        yield opened


class PulledRuns:
    """Runs as if people had approved the packages of their locks, and what their tests saw."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.names = cluster, set[str]()
        self.seen: list[tuple[str, str]] = []
        find = Composer.run_of
        cluster.runner = self._answer

        async def with_pulled(composer: Composer, run_id: str) -> Run:
            run = await find(composer, run_id)
            return await self._pulled(composer, run) if run_id in self.names else run

        monkeypatch.setattr(Composer, "run_of", with_pulled)

    async def _pulled(self, composer: Composer, run: Run) -> Run:
        assert run.contract is not None
        assert run.candidate is not None
        await composer.changes_of(run)
        mirror = await composer.mirrors.open(run.accepted.repository_url)
        digest = await order_digest_on(mirror, run.candidate.tree, run.contract)
        assert digest
        made = (OrderedEnvironment(prefix=PULLED, ecosystem="python"),)
        candidate = replace(run.candidate, order=ChangedOrder(sha256=digest, files=("requirements.txt",)))
        pulled = EnvironmentPulled(tree=candidate.tree, order_sha256=digest, environments=made)
        return replace(run, candidate=candidate, pulled=pulled)

    async def _answer(self, contract: TaskContract, files: Mapping[str, bytes]) -> TestReport | None:
        shown = contract.environment or Environment(prefix="")
        self.seen += [(test.name, shown.prefix) for test in contract.acceptance_tests]
        tree, _ = await self.cluster.checkout(contract)
        return make_report(contract, tree, files)


@pytest.fixture
async def runs(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> PulledRuns:
    """A queue that is held, and that a run without packages has passed."""
    await cluster.enqueue("first", {"src/a.txt": b"a\n"})
    await cluster.ended("first")
    await cluster.apply(QueueHeld(reason="by_person", by="ana"))
    return PulledRuns(cluster, monkeypatch)


async def enqueue(runs: PulledRuns, name: str, files: dict[str, bytes]) -> None:
    runs.names.add(run_id_of(name))
    await runs.cluster.enqueue(name, files, scope=Scope(allow_dependency_change=True))


async def test_a_queued_run_is_tested_in_its_pulled_packages(runs: PulledRuns) -> None:
    await enqueue(runs, "added", {"requirements.txt": b"added==1.0\n"})
    runs.cluster.push({"docs/a.md": b"no package\n"})
    await runs.cluster.apply(QueueResumed(by="ana"))
    assert await runs.cluster.ended("added") == {"added": "landed"}
    assert set(runs.seen) == {("standing-1", PULLED), ("unit", PULLED)}


async def test_a_run_behind_sees_the_packages_of_its_tree(runs: PulledRuns) -> None:
    await enqueue(runs, "added", {"requirements.txt": b"added==1.0\n"})
    await runs.cluster.enqueue("behind", {"src/b.txt": b"b\n"})
    await runs.cluster.apply(QueueResumed(by="ana"))
    assert set((await runs.cluster.ended("added", "behind")).values()) == {"landed"}
    assert {prefix for _, prefix in runs.seen} == {PULLED}


async def test_other_packages_on_the_branch_take_the_run_out(runs: PulledRuns) -> None:
    await enqueue(runs, "added", {"requirements.txt": b"added==1.0\n"})
    runs.cluster.push({"package.json": b'{"dependencies": {"other": "1.0.0"}}\n'})
    await runs.cluster.apply(QueueResumed(by="ana"))
    assert await runs.cluster.ended("added") == {"added": "merge_approval_void"}
    (left,) = [each for each in await runs.cluster.events() if isinstance(each, EntryLeft)]
    assert (left.code, left.paths) == ("approval_void", ("requirements.txt",))
    assert runs.cluster.files()["requirements.txt"] == b"needed==1.0\n"
