"""Attacks on the merge queue that need git, files or the bus. Those on its decisions alone are in ``tests/queue``."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.port import SCHEMA_HEADER, TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import Role, result_subject
from gatewright.clock import SystemClock
from gatewright.contracts import TaskContract, TestReport, codec
from gatewright.contracts.queue_policy import HoldConditions, QueuePolicy, Timeouts, Window
from gatewright.contracts.queue_receipt import Change
from gatewright.contracts.vocabulary import Agent
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.queue.commands import queue_id_of, task_id_of_part
from gatewright.queue.events import EntryLeft, QueueResumed, TestReported
from gatewright.run.state import Run, run_id_of
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.queue import merge_queues
from gatewright.services.gatekeeper.queue.composing import Composer
from tests.gatekeeper.publishing import Given, make_result_consumer
from tests.gatekeeper.queue.cluster import MAIN, SERIAL, Cluster, Connect, make_report, open_cluster
from tests.git.conftest import make_trap
from tests.git.repositories import MakeRepository, MakeTrap, Repository

__all__ = ["make_trap"]


@pytest.fixture
async def cluster(connect: Connect, make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Cluster]:
    repository = make_repository(files={"README.md": b"read me\n", "dir/f1": b"1\n2\n3\n", "dir/f2": b"f2\n"})
    async with open_cluster(connect, tmp_path, repository) as opened:
        yield opened


def merged_by_git(repository: Repository, one: str, other: str) -> dict[str, bytes]:
    """The files that ``git merge-tree`` makes of two commits, which it merges without a conflict."""
    tree = repository.git("merge-tree", "--write-tree", one, other).decode().strip()
    names = repository.git("ls-tree", "-r", "--name-only", tree).decode().split()
    return {name: repository.git("show", f"{tree}:{name}") for name in names}


RENAMED: dict[str, bytes | None] = {
    "dir/f1": None,
    "dir/f2": None,
    "newdir/f1": b"1\n2\n3\n",
    "newdir/f2": b"f2\n",
}
SMUGGLED: dict[str, bytes | None] = {"dir/f1": b"1\n2\nsmuggled\n"}


async def test_an_edit_is_not_smuggled_into_a_renamed_folder(cluster: Cluster) -> None:
    baseline = cluster.target.head()
    await cluster.enqueue("rename", RENAMED, baseline=baseline)
    await cluster.enqueue("edit", SMUGGLED, baseline=baseline)
    assert await cluster.ended("rename", "edit") == {"rename": "landed", "edit": "merge_conflict"}
    assert cluster.files() == {"README.md": b"read me\n", "newdir/f1": b"1\n2\n3\n", "newdir/f2": b"f2\n"}


async def test_git_itself_smuggles_the_edit_into_the_renamed_folder(cluster: Cluster) -> None:
    """The control of the test above."""
    git, commits = cluster.source.git, []
    baseline = cluster.target.head()
    git("fetch", "--quiet", cluster.target.url, MAIN)
    for files in (RENAMED, SMUGGLED):
        git("checkout", "--quiet", "--detach", "--force", baseline)
        commits.append(cluster.source.commit(files))
    assert merged_by_git(cluster.source, *commits)["newdir/f1"] == b"1\n2\nsmuggled\n"


async def test_a_new_file_is_not_smuggled_into_a_renamed_folder(cluster: Cluster) -> None:
    """Git would move it along; here it lands where its run put it, inside the scope of that run."""
    baseline = cluster.target.head()
    await cluster.enqueue("rename", RENAMED, baseline=baseline)
    await cluster.enqueue("add", {"dir/new": b"new\n"}, baseline=baseline)
    assert await cluster.ended("rename", "add") == {"rename": "landed", "add": "landed"}
    assert cluster.files().keys() >= {"dir/new", "newdir/f1"}
    assert "newdir/new" not in cluster.files()


async def test_a_run_that_needs_a_departed_runs_file_fails(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path
) -> None:
    policy = QueuePolicy(batch_size=1, window=Window(start=2, least=2, most=2))
    async with open_cluster(connect, tmp_path, make_repository(), policy=policy) as cluster:
        baseline = cluster.target.head()
        await cluster.enqueue("giver", {"given.txt": b"bad\n"}, baseline=baseline)
        await cluster.enqueue("taker", {"taker.txt": b"needs given.txt\n"}, baseline=baseline)
        ended = await cluster.ended("giver", "taker")
        assert ended == {"giver": "merge_tests_failed", "taker": "merge_tests_failed"}
        assert cluster.ref_updates() == []


async def test_a_run_that_needs_a_landed_file_lands_behind_it(cluster: Cluster) -> None:
    """The control: it is tested on the tree that lands, not on its own."""
    baseline = cluster.target.head()
    await cluster.enqueue("giver", {"given.txt": b"1\n"}, baseline=baseline)
    await cluster.enqueue("taker", {"taker.txt": b"needs given.txt\n"}, baseline=baseline)
    assert await cluster.ended("giver", "taker") == {"giver": "landed", "taker": "landed"}


async def test_a_planted_merge_driver_never_runs(
    connect: Connect, make_repository: MakeRepository, make_trap: MakeTrap, tmp_path: Path
) -> None:
    trap = make_trap("driver")
    repository = make_repository(files={".gitattributes": b"* merge=evil diff=evil\n", "f1": b"1\n", "f2": b"2\n"})
    settings = {
        "merge.evil.driver": f"{trap.program} %O %A %B",
        "diff.evil.textconv": str(trap.program),
    }
    async with open_cluster(connect, tmp_path, repository) as cluster:
        for name, value in settings.items():
            cluster.target.git("config", name, value)
        baseline = cluster.target.head()
        await cluster.enqueue("one", {"f1": b"one\n"}, baseline=baseline)
        await cluster.enqueue("other", {"f1": b"other\n"}, baseline=baseline)
        await cluster.enqueue("third", {"f2": b"third\n"}, baseline=baseline)
        ended = await cluster.ended("one", "other", "third")
        assert ended == {"one": "landed", "other": "merge_conflict", "third": "landed"}
        assert not trap.sprung
        cluster.source.git("config", "merge.evil.driver", settings["merge.evil.driver"])
        commits = []
        for content in (b"one\n", b"other\n"):
            cluster.source.git("checkout", "--quiet", "--detach", "--force", baseline)
            commits.append(cluster.source.commit({"f1": content}))
        cluster.source.git("merge", commits[0], "-m", "merge", check=False)
        assert trap.sprung, "the control: git runs it in a merge"


async def test_a_publisher_that_asks_for_a_fast_lane_overtakes_nothing(cluster: Cluster) -> None:
    names = [f"patient-{number}" for number in range(3)]
    for name in names:
        await cluster.enqueue(name, {f"{name}.txt": b"1\n"}, publisher=name)
    await cluster.enqueue("pusher", {"pusher.txt": b"1\n"}, priority="high", publisher="pusher")
    queue = await cluster.queue()
    pusher = queue.entries[run_id_of("pusher")].entry
    assert (pusher.asked, pusher.lane) == ("high", "normal")
    assert list(queue.entries) == [run_id_of(name) for name in (*names, "pusher")]


async def test_a_publisher_with_a_permitted_lane_overtakes(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """The control: the operator's policy makes the difference."""
    policy = replace(SERIAL, lanes={"trusted": "high"})
    async with open_cluster(connect, tmp_path, make_repository(), policy=policy) as cluster:
        for number in range(3):
            await cluster.enqueue(f"patient {number}", {f"{number}.txt": b"1\n"})
        await cluster.enqueue("trusted", {"trusted.txt": b"1\n"}, priority="high", publisher="trusted")
        assert list((await cluster.queue()).entries)[1] == run_id_of("trusted")


async def test_an_entry_whose_tests_never_answer_evicts_nothing(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path
) -> None:
    policy = replace(SERIAL, timeouts=Timeouts(report_s=5), hold=HoldConditions(lost_tests=2))
    async with open_cluster(connect, tmp_path, make_repository(), policy=policy) as cluster:

        async def silent(contract: TaskContract, files: Mapping[str, bytes]) -> TestReport | None:
            tree, _ = await cluster.checkout(contract)
            return None if "poison.txt" in files else make_report(contract, tree, files)

        cluster.runner = silent
        names = ("before", "poison", "after")
        for name in names:
            await cluster.enqueue(name, {f"{name}.txt": b"1\n"})
        queue = await cluster.until(lambda queue: bool(queue.held))
        assert (queue.held, list(queue.entries)) == ("infrastructure", [run_id_of("poison"), run_id_of("after")])
        assert not [event for event in await cluster.events() if isinstance(event, EntryLeft)]
        cluster.runner = None
        await cluster.apply(QueueResumed(by="ana"))
        assert await cluster.ended(*names) == dict.fromkeys(names, "landed")


async def test_many_tiny_entries_of_one_publisher_do_not_starve_another(cluster: Cluster) -> None:
    flood = [f"flood {number}" for number in range(10)]
    for number, name in enumerate(flood):
        await cluster.enqueue(name, {f"{number}.txt": b"1\n"}, publisher="flooder")
    await cluster.enqueue("patient", {"patient.txt": b"1\n"}, publisher="patient")
    await cluster.ended("patient", *flood)
    order = cluster.history()[1:]
    assert order.index((await cluster.receipt("patient")).after.commit) <= 2


async def test_a_force_push_under_the_queue_holds_it_and_is_not_overwritten(cluster: Cluster) -> None:
    cluster.push({"later.txt": b"1\n"})
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    rewritten = cluster.push({"rewritten.txt": b"1\n"}, onto=f"{MAIN}~1")
    queue = await cluster.until(lambda queue: bool(queue.held), serves=False)
    assert (queue.held, list(queue.entries)) == ("target_rewritten", [run_id_of("one")])
    for _ in range(3):
        await cluster.serve()
    assert cluster.target.head(MAIN) == rewritten
    await cluster.apply(QueueResumed(by="ana"))
    assert await cluster.ended("one") == {"one": "landed"}
    assert cluster.history()[-2:-1] == [rewritten]
    assert "later.txt" not in cluster.files()


async def test_a_force_push_during_the_landing_holds_the_queue(cluster: Cluster) -> None:
    """The position is green, and the branch was rewritten since: nothing but the compare-and-swap can see it."""
    cluster.push({"later.txt": b"1\n"})
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    cluster.alive.queues._work[cluster.queue_id].looked = float("inf")
    rewritten = cluster.push({"rewritten.txt": b"1\n"}, onto=f"{MAIN}~1")
    queue = await cluster.until(lambda queue: bool(queue.held))
    assert (queue.held, cluster.target.head(MAIN)) == ("target_rewritten", rewritten)


async def test_a_position_that_changes_a_path_outside_its_entry_is_not_tested(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the mirror returned another tree than the composed one."""
    compose_tree = Mirror.with_objects

    async def smuggle(mirror: Mirror, tree: str, changes: Sequence[TreeChange]) -> str:
        extra = [dataclasses.replace(each, path=b"src/smuggled.txt") for each in changes if each.path == b"src/one.txt"]
        return await compose_tree(mirror, tree, [*changes, *extra])

    monkeypatch.setattr(Mirror, "with_objects", smuggle)
    await cluster.enqueue("one", {"src/one.txt": b"1\n"})
    await cluster.enqueue("two", {"two.txt": b"1\n"})
    assert await cluster.ended("one", "two") == {"one": "merge_scope", "two": "landed"}
    (left,) = [event for event in await cluster.events() if isinstance(event, EntryLeft)]
    assert (left.code, left.paths) == ("scope_after_merge", ("src/smuggled.txt",))
    assert len(cluster.tested) == 1


async def test_an_entry_outside_its_contract_is_not_tested(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the stream of the queue named another change than the judged one."""
    honest = Composer.changes_of

    async def forged(composer: Composer, run: Run) -> tuple[Change, ...]:
        (change,) = await honest(composer, run)
        return change, replace(change, path="foreign.txt")

    monkeypatch.setattr(Composer, "changes_of", forged)
    await cluster.enqueue("one", {"src/one.txt": b"1\n"})
    assert await cluster.ended("one") == {"one": "merge_scope"}
    failure = (await cluster.run(run_id_of("one"))).failure
    assert failure is not None
    assert failure.message.endswith("on top of main its commit would change foreign.txt, outside its scope")
    assert (cluster.tested, cluster.ref_updates()) == ([], [])


async def answer(cluster: Cluster, report: TestReport, token: str, role: Role = "testrunner") -> Given:
    """Publish a document in the place of a role, and have the gatekeeper handle it."""
    orchestrator = cluster.alive.orchestrator
    limits = PublisherLimits(PublisherRuns(SystemClock(), frozenset()), SystemClock())
    results = make_result_consumer(orchestrator, limits, SecretScanner())
    object.__setattr__(results, "queues", cluster.alive.queues)
    headers = {SCHEMA_HEADER: codec.schema_of(report), TASK_TOKEN_HEADER: token}
    given = Given(Message(result_subject(role), codec.encode(report), headers, sequence=7))
    await results.handle(given)
    return given


async def first_part(cluster: Cluster) -> tuple[TestReport, str]:
    """An honest report on the first part that waits, and the token of its task."""
    await cluster.until(lambda queue: bool(queue.tests), serves=False)
    while not (parts := await cluster.parts()):
        await cluster.until(lambda queue: bool(queue.tests), serves=False)
    message, contract = parts[0]
    tree, files = await cluster.checkout(contract)
    return make_report(contract, tree, files), message.headers[TASK_TOKEN_HEADER]


async def test_an_honest_answer_lands_the_run(cluster: Cluster) -> None:
    """The control of the tests below."""
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    report, token = await first_part(cluster)
    assert (await answer(cluster, report, token)).settled == ["ack"]
    assert await cluster.ended("one") == {"one": "landed"}


@pytest.mark.parametrize("token", ["", "0" * 64])
async def test_an_answer_without_the_token_of_its_task_does_not_count(cluster: Cluster, token: str) -> None:
    await cluster.enqueue("one", {"one.txt": b"bad\n"})
    report, _ = await first_part(cluster)
    green = replace(report, status="PASS", commands=tuple(replace(each, exit_code=0) for each in report.commands))
    assert (await answer(cluster, green, token)).settled == ["term"]
    assert await cluster.ended("one") == {"one": "merge_tests_failed"}


async def test_an_answer_on_the_subject_of_another_role_does_not_count(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"bad\n"})
    report, token = await first_part(cluster)
    green = replace(report, status="PASS", commands=tuple(replace(each, exit_code=0) for each in report.commands))
    assert (await answer(cluster, green, token, "worker")).settled == ["term"]
    assert await cluster.ended("one") == {"one": "merge_tests_failed"}


FORGED: dict[str, dict[str, object]] = {
    "another tree": {"tree": "1" * 40},
    "no tree": {"tree": None},
    "another role": {"runner": Agent(role="WORKER", agent_id="worker-1")},
    "no commands": {"commands": ()},
    "skipped": {"status": "SKIPPED"},
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", FORGED)
async def test_a_forged_answer_is_lost_and_lands_nothing(cluster: Cluster, kind: str) -> None:
    await cluster.enqueue("one", {"one.txt": b"1\n"})
    report, token = await first_part(cluster)
    await answer(cluster, replace(report, **FORGED[kind]), token)
    queue = await cluster.until(lambda queue: queue.requests == 2 or queue.landing > 0, serves=False)
    outcomes = [event.outcome for event in await cluster.events() if isinstance(event, TestReported)]
    assert (outcomes, queue.landing, cluster.ref_updates()) == (["infrastructure"], 0, [])
    assert await cluster.ended("one") == {"one": "landed"}


async def test_an_answer_to_an_unknown_part_does_not_count(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"bad\n"})
    report, token = await first_part(cluster)
    green = replace(report, status="PASS", commands=tuple(replace(each, exit_code=0) for each in report.commands))
    unknown = replace(green, task_id=task_id_of_part(7))
    assert (await answer(cluster, unknown, token)).settled == ["term"], "the token is that of another task"
    await cluster.take(unknown)
    assert await cluster.ended("one") == {"one": "merge_tests_failed"}


async def test_an_answer_to_an_unknown_test_is_ignored(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"bad\n"})
    report, _ = await first_part(cluster)
    before = await cluster.events()
    await cluster.take(replace(report, run_id=f"queue-{cluster.queue_id}-99"))
    await cluster.take(replace(report, run_id=f"queue-{'0' * 20}-1"))
    assert await cluster.events() == before


async def test_a_second_answer_to_a_part_does_not_replace_the_first(cluster: Cluster) -> None:
    await cluster.enqueue("one", {"one.txt": b"bad\n"})
    report, _ = await first_part(cluster)
    await cluster.take(report)
    await cluster.take(replace(report, status="PASS", commands=tuple(replace(each, exit_code=0) for each in report.commands)))
    assert await cluster.ended("one") == {"one": "merge_tests_failed"}


def test_names_that_run_together_are_different_queues() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a\0b", "c"), ("a", "c"), ("A", "bc")]
    assert len({queue_id_of(*pair) for pair in pairs}) == len(pairs)


async def test_a_branch_whose_queue_id_another_one_has_gets_no_entry(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if two digests were equal: the changes of one repository never enter the queue of another."""
    monkeypatch.setattr(merge_queues, "queue_id_of", lambda _key, _branch: "0" * 20)
    monkeypatch.setattr("tests.gatekeeper.queue.cluster.queue_id_of", lambda _key, _branch: "0" * 20)
    async with open_cluster(connect, tmp_path, make_repository()) as cluster:
        await cluster.enqueue("one", {"one.txt": b"1\n"})
        assert await cluster.ended("one") == {"one": "landed"}
        other = tmp_path / "other.git"
        cluster.source.git("clone", "--quiet", "--bare", "--template=", cluster.target.url, str(other))
        cluster.target = Repository(other, cluster.source.home)
        assert (await cluster.enqueue("two", {"two.txt": b"1\n"})).failure is not None
        assert await cluster.ended("two") == {"two": "merge_not_possible"}
        assert len((await cluster.queue()).ended) == 1
