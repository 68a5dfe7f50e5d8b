"""The merge queue's shell with a real server and a real repository: from the gates to the branch, or out of the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import AbortRequest, QueueRules
from gatewright.evidence.verification.verify import verify
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.queue.events import BaseMoved, EntryLeft, QueueHeld, QueueResumed
from gatewright.run.state import Run, run_id_of
from gatewright.services.gatekeeper.decider.inputs import AbortReceived
from tests.gatekeeper.queue.cluster import MAIN, Cluster, Connect, open_cluster
from tests.git.access.conftest import entry, write_policy
from tests.git.access.servers import PUSH, READ, git_server, make_certificate
from tests.git.access.ssh_servers import open_ssh_server, ssh_entry
from tests.git.repositories import MakeRepository
from tests.openssh_account import needs_account

NO_QUEUES = QueueRules(version="1", queues=())


@pytest.fixture
async def cluster(connect: Connect, make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with open_cluster(connect, tmp_path, make_repository()) as opened:
        yield opened


async def departures(cluster: Cluster) -> list[EntryLeft]:
    return [event for event in await cluster.events() if isinstance(event, EntryLeft)]


async def test_queued_runs_land_in_order_and_their_bundles_verify(cluster: Cluster) -> None:
    names = ("one", "two", "three")
    for name in names:
        assert (await cluster.enqueue(name, {f"{name}.txt": b"1\n"})).state == "QUEUED"
    assert await cluster.ended(*names) == dict.fromkeys(names, "landed")
    commits = [(await cluster.receipt(name)).commits()[run_id_of(name)] for name in names]
    assert cluster.ref_updates() == cluster.history()[1:] == commits
    assert {tree for tree, failed in cluster.tested if not failed} == {
        cluster.target.git("rev-parse", f"{commit}^{{tree}}").decode().strip() for commit in commits
    }
    for name in names:
        assert verify(cluster.bundle(name), [cluster.public_key]).ok


async def test_a_run_that_changes_the_same_file_leaves_with_a_conflict(cluster: Cluster) -> None:
    await cluster.enqueue("first", {"README.md": b"first\n"})
    await cluster.enqueue("second", {"README.md": b"second\n"})
    assert await cluster.ended("first", "second") == {"first": "landed", "second": "merge_conflict"}
    (left,) = await departures(cluster)
    assert (left.run_id, left.against, left.paths) == (run_id_of("second"), run_id_of("first"), ("README.md",))
    assert cluster.files()["README.md"] == b"first\n"


async def test_a_red_run_leaves_after_two_reports_and_others_land(cluster: Cluster) -> None:
    names = ("good", "broken", "better")
    await cluster.enqueue("good", {"good.txt": b"1\n"})
    await cluster.enqueue("broken", {"broken.txt": b"bad\n"})
    await cluster.enqueue("better", {"better.txt": b"1\n"})
    assert await cluster.ended(*names) == {"good": "landed", "broken": "merge_tests_failed", "better": "landed"}
    (left,) = await departures(cluster)
    assert (left.code, left.tests) == ("tests_failed", ("unit",))
    assert sum(bool(failed) for _, failed in cluster.tested) == 2
    assert "broken.txt" not in cluster.files()
    assert len(cluster.ref_updates()) == 2


async def test_an_outside_push_is_kept_and_everything_is_retested(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    first = await cluster.until(lambda queue: bool(queue.tests), serves=False)
    outside = cluster.push({"outside.txt": b"1\n"})
    await cluster.until(lambda queue: queue.base.commit == outside and bool(queue.tests), serves=False)
    assert await cluster.ended("one") == {"one": "landed"}
    assert [cluster.history()[-2], cluster.files().keys() >= {"one.txt", "outside.txt"}] == [outside, True]
    assert next(iter(first.tests)) not in {tree for tree, _ in cluster.tested[-1:]}
    assert [event.descends for event in await cluster.events() if isinstance(event, BaseMoved)] == [True]


async def test_an_outside_push_of_the_same_file_is_a_conflict(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"README.md": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    cluster.push({"README.md": b"outside\n"})
    assert await cluster.ended("one") == {"one": "merge_conflict"}
    assert cluster.files()["README.md"] == b"outside\n"
    assert [left.against for left in await departures(cluster)] == [""]


async def test_a_push_just_before_the_landing_is_never_overwritten(cluster: Cluster) -> None:
    """The compare-and-swap of the push finds it."""
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    work = cluster.alive.queues._work[cluster.queue_id]
    work.looked = float("inf")  # it looks no more by itself
    outside = cluster.push({"outside.txt": b"1\n"})
    assert await cluster.ended("one") == {"one": "landed"}
    assert cluster.history()[-2] == outside


async def test_a_held_queue_tests_and_lands_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    assert await cluster.apply(QueueHeld(reason="by_person", by="ana"))
    await cluster.enqueue("two", {"two.txt": b"1\n"})
    await cluster.until(lambda queue: not queue.tests)
    queue = await cluster.queue()
    assert (queue.held, queue.landing, cluster.ref_updates()) == ("by_person", 0, [])
    assert await cluster.apply(QueueResumed(by="ana"))
    assert await cluster.ended("one", "two") == {"one": "landed", "two": "landed"}


async def test_an_aborted_run_leaves_the_queue_and_does_not_land(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.enqueue("two", {"two.txt": b"1\n"})
    run_id = run_id_of("one")
    await cluster.alive.orchestrator.advance(
        run_id, AbortReceived(AbortRequest(run_id=run_id, reason="enough", requested_by="tests"), "abort")
    )
    assert await cluster.ended("two") == {"two": "landed"}
    assert (await cluster.run(run_id)).status == "ABORTED"
    assert "one.txt" not in cluster.files()


async def test_a_queued_run_that_is_repeated_leaves_and_names_the_new_one(cluster: Cluster) -> None:
    await cluster.enqueue("ahead", {"ahead.txt": b"1\n"})
    await cluster.enqueue("old", {"one.txt": b"old\n"})
    await cluster.enqueue("new", {"one.txt": b"new\n"}, again=run_id_of("old"))
    assert await cluster.ended("ahead", "old", "new") == {"ahead": "landed", "old": "merge_superseded", "new": "landed"}
    failure = (await cluster.run(run_id_of("old"))).failure
    assert failure is not None
    assert failure.message == f"landing gate: {run_id_of('new')} replaces it"
    assert cluster.files()["one.txt"] == b"new\n"


async def test_a_branch_that_is_deleted_ends_its_runs(cluster: Cluster) -> None:
    cluster.target.git("branch", "other", MAIN)
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    cluster.target.git("update-ref", "-d", MAIN)
    assert await cluster.ended("one") == {"one": "target_missing"}


async def test_runs_leave_when_queues_json_no_longer_covers_their_branch(cluster: Cluster) -> None:
    for name in ("one", "two"):
        await cluster.enqueue(name, {f"{name}.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    cluster.alive.queues.rules = NO_QUEUES
    assert await cluster.ended("one", "two") == dict.fromkeys(("one", "two"), "merge_policy_changed")
    failure = (await cluster.run(run_id_of("one"))).failure
    assert failure is not None
    assert failure.message == "landing gate: queues.json no longer has a queue for main"
    assert cluster.ref_updates() == []


async def test_a_run_enters_no_queue_that_the_policy_removed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gatekeeper restarts with another queues.json after the gate has passed, and before the run is in its queue."""
    queues = cluster.alive.queues

    async def pass_and_restart(_run: Run) -> str:
        queues.rules = NO_QUEUES
        return ""

    monkeypatch.setattr(queues, "check_entry", pass_and_restart)
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    assert await cluster.ended("one") == {"one": "merge_policy_changed"}


async def test_a_queue_lands_on_a_private_repository_of_another_host(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    certificate = make_certificate(tmp_path_factory.mktemp("authority"))
    rights = {READ: frozenset({"read"}), PUSH: frozenset({"read", "push"})}
    async with open_cluster(connect, tmp_path, make_repository(), members=0) as cluster:
        with git_server(tmp_path, certificate, rights) as server:
            place = entry(server, tmp_path / "tokens", places=[server.url("")])
            cluster.access = RepositoryAccess.load(write_policy(tmp_path / "policies", place), "gatekeeper")
            cluster.url = server.url("target.git")
            await cluster.add()
            await cluster.enqueue("one", {"one.txt": b"1\n"})
            await cluster.enqueue("two", {"two.txt": b"1\n"})
            assert await cluster.ended("one", "two") == {"one": "landed", "two": "landed"}
            commits = [(await cluster.receipt(name)).commits()[run_id_of(name)] for name in ("one", "two")]
            assert cluster.history()[1:] == commits
            assert server.passwords() == {None, READ, PUSH}


@needs_account
async def test_a_remote_over_ssh_is_read_and_pushed_with_its_two_keys(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with (
        open_cluster(connect, tmp_path, make_repository(), members=0) as cluster,
        open_ssh_server(tmp_path, tmp_path) as server,
    ):
        place = ssh_entry(server, tmp_path, places=[server.url_of("")])
        cluster.access = RepositoryAccess.load(write_policy(tmp_path / "policies", place), "gatekeeper")
        cluster.url = server.url_of("target.git")
        await cluster.add()
        await cluster.enqueue("one", {"one.txt": b"1\n"})
        assert await cluster.ended("one") == {"one": "landed"}
        assert cluster.history()[1:] == list((await cluster.receipt("one")).commits().values())
        read, push = server.rights
        assert set(server.offered) == {read, push}
