"""The landed commit: trailers that lead to the evidence, and the same commit when landing is done again after a crash."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import RequestTask, Transition, codec
from gatewright.contracts.vocabulary import Agent, Person, SourceBranch
from gatewright.ledger.store import Ledger, Position
from gatewright.rules.landing import commit_message
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.services.gatekeeper.gates.contract.policy import judge_compiled
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.pm.compiler import compile_contract
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, make_tests, open_gatekeeper
from tests.factories import BASELINE, make_request
from tests.gatekeeper.contexts import make_context
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

BRANCH = f"refs/heads/gatewright/{RUN}"


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


class DiedError(Exception):
    """The process is gone. Not an OSError: nothing may catch it."""


class LedgerThatDies(Ledger):
    """The process dies when the landing is to be recorded: the ref has moved, and the ledger does not know."""

    async def append(self, position: Position, transition: Transition) -> Position:
        if any(event.event_type == "landed" for event in transition.events):
            raise DiedError
        return await super().append(position, transition)


async def up_to_the_tests(gatekeeper: Gatekeeper, **changes: object) -> None:
    await gatekeeper.submit(replace(contract_on(gatekeeper.repository), **changes))
    await gatekeeper.plan()
    await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
    await gatekeeper.review()


async def test_the_trailers_lead_to_run_contract_and_the_events_before_the_landing(
    repository: Repository, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper)
        run = await gatekeeper.test()
        assert run.landed is not None
        body = repository.git("log", "-1", "--format=%(trailers:only,unfold)", run.landed.commit).decode()
        trailers = dict(line.split(": ", 1) for line in body.splitlines() if line)
        records = [event for step in (await gatekeeper.orchestrator.ledger.load(RUN)).transitions for event in step.events]
    landed = next(record.seq for record in records if record.event_type == "landed")
    seq, _, head = trailers.pop("Gatewright-Event-Chain").partition(":")
    assert int(seq) < landed
    assert records[int(seq) - 1].hash == head
    assert run.contract is not None
    digest = hashlib.sha256(codec.encode(run.contract)).hexdigest()
    assert trailers == {"Gatewright-Run": RUN, "Gatewright-Contract": f"sha256:{digest}"}


async def test_a_crash_between_landing_and_ledger_lands_the_very_same_commit_again(
    repository: Repository, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper)
        dying = dataclasses.replace(gatekeeper.orchestrator, ledger=LedgerThatDies(gatekeeper.bus))
        tests = make_tests(await gatekeeper.run())
        with pytest.raises(DiedError):
            await dying.advance(RUN, RoleReplied("testrunner", tests, "answer"))
        first = repository.git("rev-parse", BRANCH).decode().strip()
        again = dataclasses.replace(gatekeeper.orchestrator, ledger=Ledger(gatekeeper.bus))
        await LedgerFollower(again).resume()
        run = (await again.ledger.load(RUN)).run
    assert run is not None
    assert run.status == "SUCCESS"
    assert run.landed is not None
    assert run.landed.commit == first == repository.git("rev-parse", BRANCH).decode().strip()


@pytest.mark.parametrize(
    ("spec", "subject"),
    [
        ("rename\n\nGatewright-Run: run-forged", "rename Gatewright-Run: run-forged"),
        ("a\0b\x1b[31m\u202e", "a b [31m"),
        ("\x01\u200b", RUN),
        ("x" * 100, "x" * 72),
    ],
)
async def test_no_wording_of_a_contract_forges_a_trailer_or_breaks_the_commit(
    repository: Repository, tmp_path: Path, spec: str, subject: str
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository))
        assert run.contract is not None
        contract = replace(run.contract, inputs=replace(run.contract.inputs, spec=spec))
        message = commit_message(run, contract)
    assert message.splitlines()[0] == subject
    parsed = repository.git("interpret-trailers", "--parse", stdin=message.encode()).decode()
    assert [line for line in parsed.splitlines() if line.startswith("Gatewright-Run")] == [f"Gatewright-Run: {RUN}"]


async def test_the_commit_has_the_contracts_author_and_gatewright_as_committer(repository: Repository, tmp_path: Path) -> None:
    author = Person(name="Ada Löwe-O'Brien", email="ada@shop.example")
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper, author=author)
        run = await gatekeeper.test()
    assert run.landed is not None
    people = repository.git("log", "-1", "--format=%an <%ae>%n%cn <%ce>", run.landed.commit).decode().splitlines()
    assert people == ["Ada Löwe-O'Brien <ada@shop.example>", "Gatewright <gatewright@localhost>"]


async def test_the_commit_names_the_commit_of_the_branch_that_was_judged(repository: Repository, tmp_path: Path) -> None:
    source = SourceBranch(name="agents/fix", head="a" * 40, base=repository.head(), commits=2)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper, source_branch=source)
        run = await gatekeeper.test()
    assert run.landed is not None
    assert f"Gatewright-Source: {'a' * 40}\n" in repository.git("log", "-1", "--format=%B", run.landed.commit).decode()


async def test_the_commit_names_the_requirements_of_its_contract(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper, requirement_ids=("PAY-SEC-007", "PAY-UI-012", "PAY-SEC-007"))
        run = await gatekeeper.test()
    assert run.landed is not None
    message = repository.git("log", "-1", "--format=%(trailers:key=Gatewright-Requirement,valueonly)", run.landed.commit)
    assert message.decode().split() == ["PAY-SEC-007", "PAY-UI-012"]


def test_a_pm_that_puts_another_author_in_is_refused() -> None:
    request = make_request(author=Person(name="Ada", email="ada@shop.example"))
    task = RequestTask(run_id=RUN, task_id=f"{RUN}.pm", baseline_commit=BASELINE, request=request)
    compiled = compile_contract(task, Agent(role="PM", agent_id="pm-1"))
    assert compiled.author == request.author
    context = make_context(RUN, "policy")
    judge_compiled(context, replace(compiled, author=Person(name="Eve", email="eve@evil.example")), request, BASELINE)
    assert [violation.detail for violation in context.report.violations] == [
        "the compiled contract's author is not the request's"
    ]


async def land_once_and_again(repository: Repository, tmp_path: Path, again: bytes = b"changed\n") -> tuple[str, Run]:
    """The commit that a run landed, and the run as it ends with a ledger that does not know of it: of another commit."""
    async with open_gatekeeper(repository, tmp_path / "before") as gatekeeper:
        await up_to_the_tests(gatekeeper)
        first = await gatekeeper.test()
    assert first.landed is not None
    async with open_gatekeeper(repository, tmp_path / "restored") as gatekeeper:
        author = Person(name="Ada", email="ada@shop.example")
        await gatekeeper.submit(replace(contract_on(repository), author=author))
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": again}))
        await gatekeeper.review()
        return first.landed.commit, await gatekeeper.test()


async def test_a_landing_after_the_backup_is_found_and_not_repeated(repository: Repository, tmp_path: Path) -> None:
    commit, run = await land_once_and_again(repository, tmp_path)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.landed is not None
    assert (run.landed.commit, run.landed.found) == (commit, True)
    assert repository.git("rev-list", f"main..{BRANCH}").split() == [commit.encode()]


async def test_another_change_than_the_landed_one_does_not_land(repository: Repository, tmp_path: Path) -> None:
    commit, run = await land_once_and_again(repository, tmp_path, again=b"changed otherwise\n")
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "landed_before")
    assert commit in run.failure.message
    assert repository.git("rev-parse", BRANCH).decode().strip() == commit


async def test_a_foreign_commit_on_the_branch_blocks_the_landing(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await up_to_the_tests(gatekeeper)
        other = repository.git("commit-tree", "main^{tree}", "-p", "main", "-m", "Gatewright-Run: run-another").decode().strip()
        repository.git("update-ref", BRANCH, other)
        run = await gatekeeper.test()
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "landing_conflict")
