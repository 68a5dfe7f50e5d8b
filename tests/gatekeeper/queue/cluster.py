"""Gatekeepers with a merge queue on one bus and one bare repository. The tester stands in for roles and test runners.

The content of the files is the truth about the tests: a tree fails while a file of it begins with ``bad``, or with ``needs``
and the name of a file that it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import queue_subject
from gatewright.clock import SystemClock
from gatewright.contracts import QueueRules, QueueTransition, TaskContract, TestReport, codec
from gatewright.contracts.queue_policy import QueuePolicy, QueueRule, Window
from gatewright.contracts.queue_receipt import QueueReceipt
from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Priority, Scope, Surroundings
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.mirror import Mirrors
from gatewright.ledger.store import Ledger
from gatewright.queue.commands import queue_id_of, read_run_id_of_test
from gatewright.queue.events import EVENTS, QueueEvent, QueueHeld, QueueResumed
from gatewright.queue.inputs import Input
from gatewright.queue.receipt import read_receipt
from gatewright.queue.state import Queue, runs_in
from gatewright.run.state import Run, run_id_of
from gatewright.sandbox.argv import parse_command
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.decider.inputs import Continue, RoleDocument, RoleReplied, Submitted
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.queue import merge_queues
from gatewright.services.gatekeeper.queue.composing import Composer
from gatewright.services.gatekeeper.queue.merge_queues import MergeQueues
from gatewright.services.gatekeeper.queue.receipts import ReceiptWriter
from gatewright.services.gatekeeper.queue.store import QueueStore
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.attacks.whole_gatekeeper import make_plan, make_result, make_review, make_tests
from tests.factories import make_contract
from tests.gatekeeper.contexts import delivered_policies
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

MAIN = "refs/heads/main"
#: One position at a time, of one run.
SERIAL = QueuePolicy(batch_size=1, window=Window(start=1, least=1, most=1))
#: Seconds that the queue's shell waits, in place of those of production.
QUICK = {"_LOOK": 0.05, "_LOOK_AT_BRANCH": 0.1, "_TAKEOVER": 0.3, "_PAUSE": 0.05}
_TASKS = "gw.task.testrunner.>"
Connect = Callable[[str], Awaitable[Bus]]
Files = Mapping[str, bytes | None]
T = TypeVar("T")


def hurry(change: Callable[[object, str, object], None]) -> None:
    """Shorten the pauses of the shell. ``change`` sets an attribute for the time of a test."""
    for name, seconds in QUICK.items():
        change(merge_queues, name, seconds)


@dataclass
class Member:
    """One gatekeeper: its connection, its memory, its mirrors and its folder of bundles."""

    name: str
    bus: Bus
    orchestrator: Orchestrator
    queues: MergeQueues
    bundles: Path
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    following: asyncio.Task[None] | None = None
    dead: bool = False
    #: Inputs that it is taking.
    calls: set[asyncio.Task[Any]] = field(default_factory=set)

    def start(self) -> None:
        self.following = asyncio.get_running_loop().create_task(self.queues.keep(self.stop))

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Everything that runs in this gatekeeper."""
        drivers = [work.driver for work in self.queues._work.values()]
        others = (self.following, *drivers, *self.queues._tasks, *self.orchestrator.background, *self.calls)
        return [task for task in others if task is not None]

    def kill(self) -> None:
        """End it at once: whatever it was doing is not finished."""
        self.dead = True
        self.stop.set()
        own = asyncio.current_task()
        for task in self.tasks():
            if task is not own:
                task.cancel()

    async def close(self) -> None:
        self.stop.set()
        tasks = self.tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.bus.close()


@dataclass
class Cluster:
    """Gatekeepers on one bus. ``source`` is the publisher's checkout, ``target`` the bare repository that it clones."""

    connect: Connect
    bus: Bus
    folder: Path
    source: Repository
    target: Repository
    policy: QueuePolicy
    members: list[Member] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    #: Trees that test runners have tested, with the names of the commands that failed.
    tested: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    #: Called for each part in place of the honest test runner; None: it stays without an answer.
    runner: Callable[[TaskContract, Mapping[str, bytes]], Awaitable[TestReport | None]] | None = None
    started: int = 0
    #: What contracts name in place of the folder of ``target``, and the credentials for it.
    url: str = ""
    access: RepositoryAccess = NO_ACCESS
    mirrors: Mirrors | None = None
    repository_key: str = ""

    @property
    def alive(self) -> Member:
        """A gatekeeper that runs."""
        return next(member for member in self.members if not member.dead)

    @property
    def queue_id(self) -> str:
        return queue_id_of(self.repository_key, MAIN)

    async def add(self, *, starts: bool = True) -> Member:
        """Add a gatekeeper."""
        self.started += 1
        name = f"gatekeeper-{self.started}"
        member = _member(name, await self.connect(name), self.folder, self.policy, self.access)
        self.members.append(member)
        if starts:
            member.start()
        return member

    async def enqueue(
        self,
        name: str,
        files: Files,
        *,
        publisher: str = "default",
        priority: Priority = "normal",
        baseline: str = "",
        again: str | None = None,
        scope: Scope | None = None,
    ) -> Run:
        """Bring a change to the state QUEUED; ``name`` is the key of its run. Its baseline is the branch as it is."""
        run_id = run_id_of(name)
        baseline = baseline or self.target.head(MAIN)
        contract = make_contract(
            run_id,
            repository=RepositoryField(url=self.url or self.target.url, target_ref=MAIN, landing="queue"),
            rollback=Rollback(strategy="worktree_drop", baseline_ref=baseline),
            allowed_paths=tuple(files),
            acceptance_tests=(AcceptanceTest(name="unit", cmd="true", must_pass=True),),
            priority=priority,
            again=again,
            scope=scope,
        )
        digest = hashlib.sha256(codec.encode(contract)).hexdigest()
        item = Submitted(run_id, "0" * 32, contract, "0" * 64, "submit", document_sha256=digest, key=name, publisher=publisher)
        await self.advance(run_id, item)
        self.repository_key = (await self.run(run_id)).accepted.repository_key
        await self.answer("techlead", run_id, make_plan)
        uri = await self.bus.put_artifact(self.patch(files, baseline))
        await self.answer("worker", run_id, lambda run: make_result(run, uri))
        await self.answer("reviewer", run_id, make_review)
        await self.answer("testrunner", run_id, make_tests)
        return await self.run(run_id)

    async def answer(self, role: str, run_id: str, make: Callable[[Run], RoleDocument]) -> None:
        """Give a role's answer to the run."""
        document = make(await self.run(run_id))
        await self.advance(run_id, RoleReplied(role, document, f"answer:{role}:{run_id}"))  # type: ignore[arg-type]

    async def advance(self, run_id: str, item: Submitted | RoleReplied | Continue) -> None:
        """Have some gatekeeper take an input."""
        await self._ask(lambda member: member.orchestrator.advance(run_id, item))

    async def apply(self, item: Input) -> bool:
        """Have some gatekeeper take an input of the queue."""
        return await self._ask(lambda member: member.queues.apply(self.queue_id, item))

    async def take(self, report: TestReport) -> None:
        """Have some gatekeeper take a test runner's answer."""
        await self._ask(lambda member: member.queues.take_answer(report))

    async def _ask(self, call: Callable[[Member], Coroutine[Any, Any, T]]) -> T:
        """Call some gatekeeper, and another one when that one ends meanwhile, as the bus delivers a message again."""
        while True:
            member = self.alive
            task = asyncio.get_running_loop().create_task(call(member))
            member.calls.add(task)
            try:
                return await task
            except DiedError:
                pass
            except asyncio.CancelledError:
                if not (member.dead and task.cancelled()):
                    raise
            finally:
                member.calls.discard(task)

    def patch(self, files: Files, baseline: str) -> bytes:
        """The canonical patch of other files on top of a commit (None: deleted)."""
        git = self.source.git
        git("fetch", "--quiet", self.target.url, MAIN)
        git("checkout", "--quiet", "--detach", "--force", baseline)
        for name, content in files.items():
            path = self.source.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        git("add", "--all", "--force")
        made = git("diff", "--cached", "--binary", "--no-renames", "HEAD")
        git("reset", "--quiet", "--hard")
        return made

    def push(self, files: Files, *, onto: str = MAIN, message: str = "outside") -> str:
        """Push from outside the queue, on top of a commit; not a descendant of the branch where ``onto`` is older."""
        git, force = self.source.git, "" if onto == MAIN else "+"
        while True:
            head = self.target.head(onto)
            git("fetch", "--quiet", self.target.url, MAIN)
            git("checkout", "--quiet", "--detach", "--force", head)
            commit = self.source.commit(files, message)
            git("push", "--quiet", self.target.url, f"{force}HEAD:{MAIN}", check=False)
            if force or commit in self.ref_updates():
                return commit

    async def run(self, run_id: str) -> Run:
        """A run as the ledger has it."""
        run = (await Ledger(self.bus).load(run_id)).run
        assert run is not None
        return run

    async def ended(self, *names: str) -> dict[str, str]:
        """Wait for the seals of runs: ``landed`` or the reason code, by name."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.serve()
                runs = {name: await self.run(run_id_of(name)) for name in names}
                if all(run.sealed is not None for run in runs.values()):
                    return {name: run.failure.code if run.failure is not None else "landed" for name, run in runs.items()}
                await asyncio.sleep(0.05)

    async def until(self, condition: Callable[[Queue], bool], *, serves: bool = True) -> Queue:
        """Wait until the queue, as its stream has it, fulfils a condition. ``serves``: answer the tests meanwhile."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if serves:
                    await self.serve()
                queue = await self.queue()
                if condition(queue):
                    return queue
                await asyncio.sleep(0.02)

    async def queue(self) -> Queue:
        """The queue as its stream has it."""
        known = await QueueStore(self.bus, SystemClock()).load(self.queue_id)
        assert known.queue is not None
        return known.queue

    async def events(self) -> list[QueueEvent]:
        """All events of the queue."""
        steps = [codec.decode(message.data, QueueTransition) async for message in self.bus.replay(queue_subject("*"))]
        kinds = [(record, EVENTS[record.event_type]) for step in steps for record in step.events]
        return [msgspec.convert(record.payload, kind) for record, kind in kinds]

    async def parts(self) -> list[tuple[Message, TaskContract]]:
        """Parts of tests that wait for a test runner."""
        found = [message async for message in self.bus.unsettled(_TASKS)]
        tasks = [(message, codec.decode(message.data, TaskContract)) for message in found]
        return [each for each in tasks if read_run_id_of_test(each[1].log_refs.run_id) is not None]

    async def serve(self) -> None:
        """Answer the parts that wait, as test runners do."""
        for message, contract in await self.parts():
            if message.headers["Nats-Msg-Id"] in self.answered:
                continue
            tree, files = await self.checkout(contract)
            if self.runner is None:
                report: TestReport | None = make_report(contract, tree, files)
            else:
                report = await self.runner(contract, files)
            self.answered.add(message.headers["Nats-Msg-Id"])
            await self.bus.remove("TASKS", message.sequence)
            if report is not None:
                self.tested.append((tree, tuple(each.name for each in report.commands if each.exit_code)))
                await self.take(report)

    async def land_together(self, *names: str) -> None:
        """Queue a file for each name, and land all of them by one push, of which only the last position is tested."""
        await self.apply(QueueHeld(reason="by_person", by="ana"))
        for name in names:
            await self.enqueue(name, {f"src/{name}.txt": name.encode()})
        await self.apply(QueueResumed(by="ana"))
        queue = await self.until(
            lambda queue: len(list(runs_in(queue.line))) == len(names) and all(each.tree for each in queue.line), serves=False
        )
        last = queue.line[-1].tree
        while last not in {tree for tree, _ in self.tested}:
            for _, contract in await self.parts():
                tree, files = await self.checkout(contract)
                if tree == last:
                    self.tested.append((tree, ()))
                    await self.take(make_report(contract, tree, files))
        # Reports of the positions before it would let these land alone, if a gatekeeper read them first.
        await self.until(lambda queue: not queue.line, serves=False)
        await self.ended(*names)

    async def checkout(self, contract: TaskContract) -> tuple[str, dict[str, bytes]]:
        """The tree that a task is about, and its files, as a test runner finds them by git."""
        if self.mirrors is None:
            self.mirrors = Mirrors(self.folder / "mirrors-of-testrunner")
        mirror = await self.mirrors.open(self.target.url)
        await mirror.ensure(contract.rollback.baseline_ref)
        uris = [each.uri for each in contract.inputs.artifacts if each.name == "candidate.patch"]
        patch = await self.bus.get_artifact(uris[0]) if uris else b""
        baseline = contract.rollback.baseline_ref
        tree = await mirror.apply(baseline, patch) if patch else await mirror.tree_of(baseline)
        entries = await mirror.files(tree)
        blobs = await mirror.blobs(entry.object_id for entry in entries)
        return tree, {entry.path.decode(): blobs[entry.object_id] for entry in entries}

    def ref_updates(self) -> list[str]:
        """Every value that the branch took since the cluster was opened, in order, by git's own log."""
        return self.target.git("reflog", "show", "--format=%H", MAIN).decode().split()[::-1]

    def history(self) -> list[str]:
        """The commits of the branch, oldest first."""
        return self.target.git("rev-list", "--first-parent", "--reverse", MAIN).decode().split()

    def files(self) -> dict[str, bytes]:
        """The files of the branch."""
        names = self.target.git("ls-tree", "-r", "-z", "--name-only", MAIN).decode().split("\0")
        return {name: self.target.git("show", f"{MAIN}:{name}") for name in names if name}

    async def receipt(self, name: str) -> QueueReceipt:
        """The receipt of a run that landed."""
        landed = (await self.run(run_id_of(name))).landed
        assert landed is not None
        assert landed.receipt
        return read_receipt(await self.bus.get_artifact(landed.receipt))

    def bundle(self, name: str) -> Path:
        """A sealed bundle of a run, from some gatekeeper that has one."""
        found = [member.bundles / run_id_of(name) for member in self.members]
        return next(folder for folder in found if (folder / "manifest.json").exists())

    @property
    def public_key(self) -> keys.PublicKey:
        return keys.load(self.folder / "key.pem").public

    async def close(self) -> None:
        for member in self.members:
            await member.close()
        await self.bus.close()


class DiedError(Exception):
    """The process is gone. Nothing may catch it."""


@contextlib.asynccontextmanager
async def open_cluster(
    connect: Connect, folder: Path, source: Repository, *, policy: QueuePolicy = SERIAL, members: int = 1
) -> AsyncIterator[Cluster]:
    """Some gatekeepers, and a bare copy of ``source`` that they land on."""
    path = folder / "target.git"
    source.git("clone", "--quiet", "--bare", "--template=", source.url, str(path))
    target = Repository(path, source.home)
    log = path / "logs" / MAIN
    log.parent.mkdir(parents=True)
    log.touch()  # git appends to a log that is there
    cluster = Cluster(connect, await connect("tester"), folder, source, target, policy)
    try:
        for _ in range(members):
            await cluster.add()
        yield cluster
    finally:
        await cluster.close()


def make_report(contract: TaskContract, tree: str, files: Mapping[str, bytes], **changes: object) -> TestReport:
    """The honest answer to a part."""
    red = is_red(files)
    commands = tuple(
        TestCommand(
            name=test.name,
            cmd_argv=tuple(parse_command(test.cmd)),
            must_pass=test.must_pass,
            timeout_sec=contract.timeout_retry.timeout_sec,
            exit_code=int(red),
            duration_sec=0.1,
            stdout="",
            stderr="",
        )
        for test in contract.acceptance_tests
    )
    now = "2026-01-02T00:00:00.000Z"
    report = TestReport(
        run_id=contract.log_refs.run_id,
        task_id=contract.task_id,
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at=now,
        finished_at=now,
        status="FAIL" if red else "PASS",
        commands=commands,
        artifacts=(),
        summary=TestSummary(passed=0 if red else len(commands), failed=len(commands) if red else 0, skipped=0),
        tree=tree,
        sandbox="bubblewrap",
        surroundings=Surroundings(versions={}, host={}, sandbox={"sandbox": "bubblewrap"}),
    )
    return replace(report, **changes)


def is_red(files: Mapping[str, bytes]) -> bool:
    """Whether the tests of a tree with these files fail."""
    needed = (content.split()[1].decode() for content in files.values() if content.startswith(b"needs "))
    return any(content.startswith(b"bad") for content in files.values()) or not files.keys() >= set(needed)


def _member(name: str, bus: Bus, folder: Path, policy: QueuePolicy, access: RepositoryAccess) -> Member:
    async def has_ended(run_id: str) -> bool:
        run = (await ledger.load(run_id)).run
        return run is None or run.ended

    async def wake(run_id: str) -> None:
        await orchestrator.advance(run_id, Continue(f"{run_id}:queue"))

    async def lapsed(run: Run) -> str:
        return await gates.lapsed_approvals(run)

    own = folder / name
    own.mkdir()
    clock, log = SystemClock(), make_logger()
    ledger, mirrors, artifacts = Ledger(bus), Mirrors(own / "mirrors", access=access), ArtifactCache(bus)
    rules = QueueRules(version="1", queues=(QueueRule(repositories=("*",), branches=("refs/heads/*",), policy=policy),))
    policies = dataclasses.replace(delivered_policies(), queues=rules)
    composer = Composer(ledger, mirrors, artifacts)
    metrics = Metrics("gatekeeper")
    queues = MergeQueues(
        bus=bus,
        ledger=ledger,
        composer=composer,
        artifacts=artifacts,
        rules=rules,
        clock=clock,
        log=log,
        metrics=metrics,
        receipts=ReceiptWriter(artifacts, composer),
        lapsed=lapsed,
        wake=wake,
    )
    gates = GateEngine(policies, mirrors, artifacts, PathLocks(bus, has_ended), clock, {}, queue=queues)
    signer = Signer(keys.load_or_create(folder / "key.pem"))
    bundles = BundleWriter(own / "runs")
    orchestrator = Orchestrator(bus, ledger, gates, bundles, signer, clock, log, metrics)
    return Member(name, bus, orchestrator, queues, own / "runs")
