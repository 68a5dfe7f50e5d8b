"""`--network on-request` under attack: what is pulled is what people were shown, by a yes that counts, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.environments.plan import Note
from gatewright.app.puller.orders import OrderDesk
from gatewright.bus.topology import ENVIRONMENT_SUBJECT
from gatewright.contracts import AbortRequest, EnvironmentOrder
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.vocabulary import Environment, Executor, Person, Scope, TimeoutRetry
from gatewright.errors import GatewrightError
from gatewright.run.events import ChangedOrder
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Continue
from gatewright.services.gatekeeper.gates import engine
from gatewright.services.gatekeeper.gates.change import packages
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.attacks.people import WEEK, Files, Inbox, open_inbox, signed
from tests.attacks.whole_gatekeeper import make_review, make_tests
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

PACKAGES: dict[str, object] = {
    "name": "packages", "reason": "network", "risk": "medium", "approvers": ["ana", "@release"], "within_seconds": WEEK,
}  # fmt: skip
BEFORE, PULLED = "/srv/environments/before", "/srv/environments/pulled"
LOCK = {"lockfileVersion": 3, "packages": {"": {}}}
FILES: dict[str, bytes] = {
    "README.md": b"text\n",
    "requirements.txt": b"needed==1.0\n",
    "package.json": b"{}\n",
    "package-lock.json": json.dumps(LOCK).encode(),
    "web/package-lock.json": json.dumps(LOCK).encode(),
}
ADDED: Files = {"requirements.txt": b"needed==1.1\nadded==1.0\n"}


@dataclass
class Fill:
    """A puller's work: the orders that it carried out, each once it is let go."""

    orders: list[EnvironmentOrder] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, order: EnvironmentOrder, note: Note) -> tuple[OrderedEnvironment, ...]:
        note("preparing")
        self.orders.append(order)
        self.begun.set()
        await self.go.wait()
        return (OrderedEnvironment(prefix=PULLED, ecosystem="python"),)


@dataclass
class Changes:
    """A run whose order permits packages, on a gatekeeper with a puller."""

    inbox: Inbox
    fill: Fill

    async def review(self, files: Files, **changes: object) -> Run:
        """The run once its change was reviewed."""
        await self.submit(**changes)
        return await self.change(files)

    async def submit(self, **changes: object) -> None:
        contract = self.inbox.contract()
        given: dict[str, object] = {
            "allowed_paths": tuple(FILES),
            "scope": Scope(allow_dependency_change=True),
            "environment": Environment(prefix=BEFORE),
            "tool_permissions": replace(contract.tool_permissions, network="on-request"),
        }
        await self.inbox.submit(**{**given, **changes})

    async def change(self, files: Files) -> Run:
        keeper = self.inbox.gatekeeper
        run = await keeper.work(keeper.patch(files))
        return run if run.ended else await keeper.answer("reviewer", make_review(run))

    async def approve(self) -> Run:
        await self.inbox.decide(signed(await self.inbox.said()))
        return await self.inbox.run()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


@pytest.fixture
async def changes(repository: Repository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Changes]:
    async with open_inbox(repository, tmp_path, PACKAGES, clock=clock) as inbox:
        fill = Fill()
        fill.go.set()
        desk = OrderDesk(fill, 1, make_logger(), Metrics("puller"), hold=0.2)
        await inbox.gatekeeper.bus.serve("puller", {ENVIRONMENT_SUBJECT: desk.answer})
        yield Changes(inbox, fill)
        await desk.close()


def code_of(run: Run) -> str:
    assert run.failure is not None, run.state
    return run.failure.code


async def test_people_are_shown_which_packages_come_and_go(changes: Changes) -> None:
    run = await changes.review({"requirements.txt": b"added==1.0\n"})
    request = await changes.inbox.asked()
    assert request.stage == "environment"
    assert request.why == (
        "network access: on-request; changed packages: requirements.txt; "
        "requirements.txt: Packages: 1 added (added ==1.0); 1 removed (needed)."
    )
    assert (run.state, changes.fill.orders) == ("AWAITING_APPROVAL", [])


async def test_an_index_in_a_changed_file_is_shown(changes: Changes) -> None:
    await changes.review({"requirements.txt": b"--index-url https://evil.example/simple\nneeded==1.0\n"})
    assert "evil.example" in (await changes.inbox.asked()).why


async def test_a_yes_pulls_exactly_what_was_shown(changes: Changes) -> None:
    await changes.review(ADDED)
    run = await changes.approve()
    assert run.pulled is not None
    (order,) = changes.fill.orders
    assert {each.path: each.content for each in order.files}["requirements.txt"] == ADDED["requirements.txt"]
    (task,) = [each for each in run.tasks.values() if each.role == "testrunner"]
    assert task.contract is not None
    assert (task.contract.environment, task.contract.baseline_environment) == (
        Environment(prefix=PULLED),
        Environment(prefix=BEFORE),
    )


async def test_a_repair_that_changes_the_lock_needs_another_yes(changes: Changes) -> None:
    retry = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
    await changes.review(ADDED, timeout_retry=retry, executor=Executor(kind="agent", agent="codex"))
    await changes.approve()
    keeper = changes.inbox.gatekeeper
    run = await keeper.run()
    failed = replace(make_tests(run), status="FAIL")
    run = await keeper.answer("testrunner", failed)
    assert (run.attempt, run.pulled) == (2, None)
    run = await changes.change({"requirements.txt": b"needed==1.1\nworse==1.0\n"})
    assert (run.state, len(changes.fill.orders)) == ("AWAITING_APPROVAL", 1)
    assert "worse ==1.0" in (await changes.inbox.asked()).why


async def test_a_yes_after_its_time_pulls_nothing(changes: Changes, clock: HandClock) -> None:
    await changes.review(ADDED)
    decision = signed(await changes.inbox.said())
    clock.seconds += WEEK + 1
    with pytest.raises(GatewrightError) as refusal:
        await changes.inbox.decide(decision)
    assert (refusal.value.reason, changes.fill.orders) == ("approval_expired", [])


async def test_who_ordered_the_run_may_not_approve_its_packages(changes: Changes) -> None:
    await changes.review(ADDED, author=Person(name="B. N.", email="ben@example.org"))
    with pytest.raises(GatewrightError) as refusal:
        await changes.inbox.decide(signed(await changes.inbox.said(person="ben"), "ben"))
    assert (refusal.value.reason, changes.fill.orders) == ("approval_of_own_run", [])


async def test_the_yes_of_another_run_approves_nothing(changes: Changes) -> None:
    await changes.review(ADDED)
    given = signed(await changes.inbox.said())
    await changes.inbox.decide(given)
    keeper = changes.inbox.gatekeeper
    keeper.repository.git("reset", "--quiet", "--hard")
    keeper.key = "a second run"
    run = await changes.review(ADDED)
    assert run.state == "AWAITING_APPROVAL"
    asked = await changes.inbox.asked()
    with pytest.raises(GatewrightError):
        await changes.inbox.decide(given)
    forged = replace(await changes.inbox.said(), request_id=asked.request_id, request_sha256="0" * 64)
    with pytest.raises(GatewrightError) as refusal:
        await changes.inbox.decide(signed(forged))
    assert refusal.value.reason == "approval_other_request"
    assert len(changes.fill.orders) == 1


@pytest.mark.parametrize("name", ["requirements.txt", "package-lock.json", "poetry.lock", "uv.lock", "pyproject.toml"])
async def test_a_lock_that_is_a_link_is_refused(changes: Changes, name: str) -> None:
    place = changes.inbox.gatekeeper.repository.path
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to("README.md")
    scope = Scope(allow_dependency_change=True, allow=("symlink",))
    run = await changes.review({}, scope=scope, allowed_paths=(name,))
    assert (code_of(run), changes.fill.orders) == ("environment_not_prepared", [])


@pytest.mark.parametrize(
    ("size", "scope", "code"),
    [
        (6 << 20, Scope(allow_dependency_change=True, allow=("large_file", "large_diff")), "environment_not_prepared"),
        (50 << 20, Scope(allow_dependency_change=True), "diff_too_large"),
    ],
)
async def test_a_lock_that_no_order_can_carry_is_refused(changes: Changes, size: int, scope: Scope, code: str) -> None:
    run = await changes.review({"requirements.txt": b"# padding\n" * (size // 10) + b"added==1.0\n"}, scope=scope)
    assert (code_of(run), changes.fill.orders) == (code, [])


async def test_a_fault_that_the_baseline_has_too_hides_no_change(changes: Changes) -> None:
    repository = changes.inbox.gatekeeper.repository
    repository.commit({"requirements.txt": b"https://files.example/a.whl\nneeded==1.0\n"})
    run = await changes.review({"requirements.txt": b"https://files.example/a.whl\nadded==1.0\n"})
    assert (code_of(run), changes.fill.orders) == ("environment_not_prepared", [])


async def test_of_two_locks_the_installed_one_decides(changes: Changes) -> None:
    repository = changes.inbox.gatekeeper.repository
    lock = json.dumps({**LOCK, "name": "changed"}).encode()
    run = await changes.review({"web/package-lock.json": lock})
    assert run.running("testrunner") is not None, "npm installs the lock at the top only"
    assert run.approvals == {}
    repository.git("reset", "--quiet", "--hard")
    changes.inbox.gatekeeper.key = "a second run"
    await changes.review({"package-lock.json": lock})
    assert "package-lock.json" in (await changes.inbox.asked()).why


async def test_a_lock_in_a_folder_decides_where_the_top_has_none(changes: Changes) -> None:
    changes.inbox.gatekeeper.repository.commit({"package-lock.json": None, "web/package.json": b"{}"})
    await changes.review({"web/package-lock.json": json.dumps({**LOCK, "name": "changed"}).encode()})
    assert "web/package-lock.json" in (await changes.inbox.asked()).why


async def test_a_candidate_that_changes_packages_leaves_the_others(changes: Changes) -> None:
    executors = (Executor(kind="agent", agent="codex"), Executor(kind="agent", agent="claude"))
    await changes.submit(candidates=executors, executor=None)
    keeper = changes.inbox.gatekeeper
    await keeper.work(keeper.patch(ADDED))
    keeper.repository.git("reset", "--quiet", "--hard")
    run = await keeper.work(keeper.patch({"README.md": b"another text\n"}))
    assert [each.failure for _, each in sorted(run.candidates.items())] == ["environment_pull_unsupported", ""]
    assert run.running("reviewer") is not None


async def test_an_order_that_differs_from_the_recorded_one_is_not_sent(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = packages.find_order

    async def other(*arguments: object) -> ChangedOrder | None:
        found = await find(*arguments)  # type: ignore[arg-type]
        return found and replace(found, sha256="7" * 64)

    monkeypatch.setattr(engine, "find_order", other)
    await changes.review(ADDED)
    run = await changes.approve()
    assert (code_of(run), changes.fill.orders) == ("environment_order_differs", [])


async def test_an_abort_ends_a_run_whose_packages_are_being_pulled(changes: Changes) -> None:
    changes.fill.go.clear()
    await changes.review(ADDED)
    run = await changes.approve()
    assert (run.state, run.pulled) == ("S4", None)
    keeper = changes.inbox.gatekeeper
    asked = AbortRequest(run_id=run.run_id, reason="enough", requested_by="ana")
    await keeper.orchestrator.advance(run.run_id, AbortReceived(asked, "abort"))
    changes.fill.go.set()
    await keeper.orchestrator.advance(run.run_id, Continue("late"))
    run = await keeper.run()
    assert (run.status, run.pulled) == ("ABORTED", None)
