"""Who ordered a run: the person travels with the order from every way in, and a run of an unknown person no person approves."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import RequestTask, RunRequest
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.vocabulary import Agent, Executor, Scope, TimeoutRetry
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.people.ownership import orderers_of
from gatewright.run.state import Run
from gatewright.services.gatekeeper.policies.publishers import Publishers
from gatewright.services.pm.compiler import compile_contract
from tests.attacks import test_approval_grants as grants
from tests.attacks import test_escalations as escalations
from tests.attacks import test_review as reviews
from tests.attacks.people import LANDING, Inbox, open_inbox, signed
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.factories import make_contract, make_request
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

HIGH = LANDING | {"risk": "high"}
#: A document that names no person.
NOBODY: dict[str, object] = {"ordered_by": ()}
Opened = Callable[..., AbstractAsyncContextManager[Inbox]]


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Opened:
    return lambda *rules, **changes: open_inbox(make_repository(), tmp_path, *rules, clock=HandClock(), **changes)


def assert_verified(folder: Path) -> None:
    assert verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public]).findings == ()


async def request(inbox: Inbox, **changes: object) -> Run:
    """A request that a person has ordered, up to the candidate."""
    plain = make_request(
        repository=inbox.contract().repository, allowed_paths=("README.md",), requested_by="the live page",
        executor=Executor(kind="command", commands=("python codemod.py {paths}",)),
    )  # fmt: skip
    run = await inbox.gatekeeper.submit(replace(plain, **changes))
    assert isinstance(run.accepted.request, RunRequest)
    task = RequestTask(
        run_id=RUN, task_id=f"{RUN}.pm", baseline_commit=run.accepted.baseline_commit, request=run.accepted.request
    )
    run = await inbox.gatekeeper.answer("pm", compile_contract(task, Agent(role="PM", agent_id="pm-1")))
    assert run.failure is None, run.failure
    await inbox.gatekeeper.plan()
    return await inbox.work() if (await inbox.run()).failure is None else await inbox.run()


async def test_who_signed_in_on_the_page_does_not_approve_the_order(opened: Opened, tmp_path: Path) -> None:
    async with opened(HIGH) as inbox:
        await request(inbox, ordered_by=("0815@id.example.org", "Ben@Example.org"))
        assert await refused(inbox, signed(await inbox.said("approve", "ben"), "ben")) == "approval_of_own_run"
        assert await refused(inbox, signed(await inbox.said("delegate", delegate_to="ben"))) == "approval_of_own_run"
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
        assert run.status == "SUCCESS"
        assert run.accepted.orderers == ("0815@id.example.org", "ben@example.org")
        assert run.contract is not None
        assert run.contract.ordered_by == ("0815@id.example.org", "Ben@Example.org")
        assert_verified(tmp_path)


@pytest.mark.parametrize("claim", ["the live page", "mcp host", "sdk", "command line"])
async def test_a_run_of_an_unknown_person_ends_before_any_work(opened: Opened, tmp_path: Path, claim: str) -> None:
    async with opened(HIGH) as inbox:
        run = await request(inbox, requested_by=claim)
        assert run.failure is not None
        assert (run.failure.code, run.accepted.orderers) == ("orderer_unknown", ())
        assert "landing" in run.failure.message
        assert [task.status for task in run.workers()] == ["PENDING"]
        assert inbox.gatekeeper.nothing_landed()
        assert_verified(tmp_path)


async def test_a_contract_of_an_agent_names_no_person(opened: Opened, tmp_path: Path) -> None:
    async with opened(HIGH) as inbox:
        run = await inbox.submit(**NOBODY)
        assert run.failure is not None
        assert run.failure.code == "orderer_unknown"
        assert_verified(tmp_path)


async def test_what_asks_about_the_change_alone_ends_it_then(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"text\n", "requirements.txt": b"\n"})
    rule = HIGH | {"reason": "protected_class", "classes": ["dependencies"]}
    opens = {"allowed_paths": ("README.md", "requirements.txt"), "scope": Scope(allow_dependency_change=True)}
    async with open_inbox(repository, tmp_path, rule, clock=HandClock()) as inbox:
        await inbox.submit(**opens, **NOBODY)
        run = await inbox.work({"requirements.txt": b"six==1.17.0\n"})
        assert run.failure is not None
        assert (run.failure.code, run.tests_passed) == ("orderer_unknown", True)
        assert inbox.gatekeeper.nothing_landed()
        assert_verified(tmp_path)


async def test_where_no_rule_wants_another_person_it_need_not_be_known(opened: Opened) -> None:
    async with opened(LANDING | {"yourself": True}) as inbox:
        await inbox.to_the_candidate(**NOBODY)
        await inbox.decide(signed(await inbox.said()))
        assert (await inbox.run()).status == "SUCCESS"


async def test_where_no_rule_asks_it_need_not_be_known(opened: Opened) -> None:
    async with opened() as inbox:
        assert (await inbox.to_the_candidate(**NOBODY)).status == "SUCCESS"


async def test_no_vote_counts_on_a_run_of_an_unknown_person(opened: Opened) -> None:
    async with opened(reviews.REVIEW, people=reviews.voters()) as inbox:
        run = await inbox.submit(**NOBODY)
        assert run.failure is not None
        assert run.failure.code == "orderer_unknown"


async def test_no_grant_lets_a_run_of_an_unknown_person_pass(opened: Opened) -> None:
    async with opened(grants.RULE) as inbox:
        await grants.bring(inbox, grants.grant_on(inbox))
        run = await inbox.submit(**NOBODY)
        assert run.failure is not None
        assert run.failure.code == "orderer_unknown"
        assert (await grants.listed(inbox)).uses == ()


async def test_an_escalation_of_an_unknown_person_asks_no_one(opened: Opened) -> None:
    """The rule that would ask is not asked, and the run ends as it does without a rule."""
    retry = TimeoutRetry(timeout_sec=60, max_retries=2, retry_backoff_sec=0)
    async with opened(escalations.LMC) as inbox:
        await inbox.submit(executor=Executor(kind="agent", agent="codex"), timeout_retry=retry, **NOBODY)
        for _ in range(3):
            run = await escalations.fail(inbox)
        assert run.failure is not None
        assert (run.failure.code, run.approvals) == ("escalated", {})


def publishers_of(folder: Path, **changes: object) -> None:
    """Change the entry of ``default`` in the folder's publishers.json."""
    file = folder / "publishers.json"
    known = json.loads(file.read_text())
    next(each for each in known["publishers"] if each["name"] == "default").update(changes)
    file.write_text(json.dumps(known))


async def test_the_people_of_a_publisher_do_not_approve_its_runs(opened: Opened) -> None:
    """Whatever the order claims: who has the identity can write any name."""
    async with opened(HIGH, adapt=partial(publishers_of, persons=["BEN@example.org", "dan"])) as inbox:
        await inbox.to_the_candidate(ordered_by=("ana",))
        for name in ("ana", "ben"):
            assert await refused(inbox, signed(await inbox.said("approve", name), name)) == "approval_of_own_run"


async def test_a_publisher_whose_people_are_named_needs_no_claim(opened: Opened, tmp_path: Path) -> None:
    async with opened(HIGH, adapt=partial(publishers_of, persons=["ben@example.org"])) as inbox:
        await inbox.to_the_candidate(**NOBODY)
        assert await refused(inbox, signed(await inbox.said("approve", "ben"), "ben")) == "approval_of_own_run"
        await inbox.decide(signed(await inbox.said()))
        assert (await inbox.run()).status == "SUCCESS"
        assert_verified(tmp_path)


def test_a_publisher_with_default_rules_inherits_no_persons() -> None:
    known = json.loads((Path(__file__).parents[2] / "policies" / "publishers.json").read_text())
    known["publishers"][1]["persons"] = ["ana"]
    named = Publishers.model_validate(known).with_named(["payments"]).of("payments")
    assert named is not None
    assert named.persons == ()


@pytest.mark.parametrize(
    ("requested_by", "expected"),
    [("Ana <ANA@example.org>", ("ana", "ana@example.org")), ("ANA", ("ana",)), ("the live page", ()), ("PM/pm-1", ())],
)
def test_a_claim_names_a_person_of_the_roster_or_none(requested_by: str, expected: tuple[str, ...]) -> None:
    ana = RosterPerson(name="ana", keys=(), accounts=("ana@example.org",), publishers=("payments",))
    assert orderers_of(make_request(requested_by=requested_by), "default", (), (ana,)) == expected
    assert orderers_of(make_contract(), "payments", (), (ana,)) == ("ana",)
