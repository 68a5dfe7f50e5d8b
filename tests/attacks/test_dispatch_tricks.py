"""Work given out by those who may not, and reviews by those who did the work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import HandoffChain
from gatewright.contracts.vocabulary import Agent, Artifact, RoleName
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.resources import policy_directory, schema_directory
from gatewright.services.gatekeeper.gates.contract.role_contract import schema_digest
from gatewright.services.gatekeeper.policies.load import load
from gatewright.worker_role import resolve_role
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, make_plan, make_review, open_gatekeeper
from tests.factories import make_request
from tests.git.repositories import MakeRepository

WORKER = Agent(role="WORKER", agent_id="worker-1")
REVIEWER = Agent(role="REVIEWER", agent_id="reviewer-1")


async def refused(gatekeeper: Gatekeeper, contract: TaskContract, code: str, rule: str) -> None:
    """The contract never becomes work: refused under ``code`` and ``rule``, no task on the bus, nothing landed."""
    run = await gatekeeper.submit(contract)
    (report,) = await gatekeeper.reports("policy")
    assert (code, rule) in {(violation.code, violation.rule) for violation in report.violations}, report.violations
    assert run.status == "FAILED"
    assert not run.tasks
    assert gatekeeper.nothing_landed()


@pytest.mark.parametrize(
    "owner",
    [
        Agent(role="WORKER", agent_id="worker-1"),
        Agent(role="REVIEWER", agent_id="reviewer-1"),
        Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        Agent(role="SEARCHER", agent_id="searcher-1"),
    ],
)
async def test_a_role_that_never_dispatches_orders_work(owner: Agent, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    contract = contract_on(repository, owner_agent=owner, assigned_agent=WORKER)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "dispatch_forbidden", "dispatch.table")


async def test_an_unregistered_owner_orders_work(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    contract = contract_on(repository, owner_agent=Agent(role="PM", agent_id="pm-of-mine"))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "dispatch_forbidden", "dispatch.owner")


async def test_one_agent_under_two_roles_orders_from_itself(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    contract = contract_on(repository, owner_agent=Agent(role="PM", agent_id="worker-1"))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "dispatch_forbidden", "dispatch.two_agents")


async def test_one_session_under_two_names_orders_from_itself(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    owner = Agent(role="PM", agent_id="pm-1", codex_thread_id="thread-7")
    worker = Agent(role="WORKER", agent_id="worker-1", codex_thread_id="thread-7")
    contract = contract_on(repository, owner_agent=owner, assigned_agent=worker)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "dispatch_forbidden", "dispatch.two_agents")


@pytest.mark.parametrize(
    ("task_type", "agent", "code", "rule"),
    [
        ("REVIEW", REVIEWER, "field_unread", "task_type"),
        ("TEST", Agent(role="TEST_RUNNER", agent_id="testrunner-1"), "field_unread", "task_type"),
        ("PLAN", Agent(role="TECH_LEAD", agent_id="techlead-1"), "field_unread", "task_type"),
        ("SEARCH", Agent(role="SEARCHER", agent_id="searcher-1"), "field_unread", "task_type"),
        ("IMPLEMENT", REVIEWER, "dispatch_forbidden", "dispatch.task_type"),
    ],
)
async def test_a_change_is_ordered_as_another_kind_of_run(
    task_type: str, agent: Agent, code: str, rule: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository, task_type=task_type, assigned_agent=agent)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, code, rule)


@pytest.mark.parametrize(
    ("roles", "most"),
    [
        (("WORKER", "REVIEWER", "WORKER"), None),
        (("REVIEWER", "WORKER"), None),
        (("TEST_RUNNER", "REVIEWER", "WORKER"), None),
        (("WORKER", "TECH_LEAD"), None),
        (("TECH_LEAD", "WORKER", "REVIEWER"), 1),
        (("PM", "TECH_LEAD", "REVIEWER"), None),
        (("WORKER", "REVIEWER"), None),
        (("WORKER", "TEST_RUNNER"), None),
        (("WORKER", "SECURITY", "REVIEWER", "TEST_RUNNER"), None),
    ],
)
async def test_a_chain_hands_work_back_or_on_for_ever(
    roles: tuple[RoleName, ...], most: int | None, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository, handoff_chain=HandoffChain(enabled=True, roles=roles, max_handoffs=most))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "dispatch_forbidden", "handoff_chain")


@pytest.mark.parametrize(
    ("chain", "first"),
    [
        (None, {"reviewer", "testrunner"}),
        (HandoffChain(enabled=True, roles=("WORKER", "REVIEWER", "TEST_RUNNER")), {"reviewer"}),
        (HandoffChain(enabled=False, roles=("WORKER", "REVIEWER", "TEST_RUNNER")), {"reviewer", "testrunner"}),
    ],
)
async def test_along_a_chain_one_role_has_the_task_at_a_time(
    chain: HandoffChain | None, first: set[str], make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(contract_on(repository, handoff_chain=chain))
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({"README.md": b"another text\n"}))
        assert {task.role for task in run.tasks.values() if task.status == "RUNNING"} == first
        run = await gatekeeper.review()
        assert [task.role for task in run.tasks.values() if task.status == "RUNNING"] == ["testrunner"]
        assert (await gatekeeper.test()).status == "SUCCESS"
    assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_the_chain_of_the_specification_is_let_through(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    chain = HandoffChain(enabled=True, roles=("PM", "TECH_LEAD", "WORKER", "REVIEWER", "TEST_RUNNER"), max_handoffs=4)
    contract = contract_on(repository, handoff_chain=chain)
    contract = replace(contract, role_contract=resolve_role(contract))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is None


@pytest.mark.parametrize(
    "changes",
    [
        {"owner_agent": Agent(role="WORKER", agent_id="worker-1")},
        {"owner_agent": Agent(role="PM", agent_id="pm-1")},
        {"owner_agent": Agent(role="TECH_LEAD", agent_id="techlead-2")},
        {"assigned_agent": REVIEWER},
        {"assigned_agent": Agent(role="WORKER", agent_id="worker-of-mine")},
        {"assigned_agent": Agent(role="TECH_LEAD", agent_id="techlead-1")},
    ],
)
async def test_a_plan_gives_work_past_the_table(
    changes: dict[str, object], make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository))
        run = await gatekeeper.answer("techlead", make_plan(run, **changes))
        assert run.failure is not None
        assert run.failure.code == "dispatch_forbidden"
        assert not run.workers()
        assert gatekeeper.nothing_landed()


async def test_a_plan_by_another_agent_in_the_tech_leads_name(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository))
        plan = replace(make_plan(run, owner_agent=WORKER), producer=WORKER)
        run = await gatekeeper.answer("techlead", plan)
        assert run.failure is not None
        assert run.failure.code == "dispatch_forbidden"


async def test_the_pm_gives_the_order_away_in_another_role(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    request = make_request(repository=RepositoryField(url=repository.url), allowed_paths=("README.md",))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(request)
        contract = contract_on(repository, owner_agent=Agent(role="TECH_LEAD", agent_id="techlead-1"), policy_pack="low")
        contract = replace(contract, rollback=replace(contract.rollback, baseline_ref=run.accepted.baseline_commit))
        run = await gatekeeper.answer("pm", contract)
        assert run.failure is not None
        assert run.failure.code == "contract_differs"


async def test_the_implementer_reviews_its_own_work(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(contract_on(repository))
        await gatekeeper.plan()
        run = await gatekeeper.work(gatekeeper.patch({"README.md": b"two\n"}))
        own = replace(make_review(run), reviewer=Agent(role="REVIEWER", agent_id="worker-1"))
        run = await gatekeeper.answer("reviewer", own)
        assert run.failure is not None
        assert run.failure.code == "reviewer_not_independent"
        assert gatekeeper.nothing_landed()


async def test_a_worker_answers_with_a_review(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await gatekeeper.submit(contract_on(repository))
        run = await gatekeeper.plan()
        contract = run.contract
        assert contract is not None
        plan = replace(make_plan(run), task_id=run.workers()[0].task_id)
        run = await gatekeeper.answer("worker", plan)
        assert run.failure is not None
        assert run.failure.code == "output_schema_mismatch"
        assert gatekeeper.nothing_landed()


def binding(name: str, schema: str, digest: str | None = None) -> Artifact:
    return Artifact(name=name, uri=f"schemas/{schema}.json", sha256=digest or schema_digest(schema))


async def test_a_bound_output_schema_is_kept_with_the_contract(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    contract = contract_on(repository)
    bound = (binding("output_schema", "task_result.v1"), binding("output_schema.reviewer", "review_report.v1"))
    contract = replace(contract, inputs=replace(contract.inputs, artifacts=bound))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is None, run.failure
        assert run.contract is not None
        kept = run.contract.inputs.artifacts[0]
        assert await gatekeeper.bus.get_artifact(kept.uri) == (schema_directory() / "task_result.v1.json").read_bytes()
        (report,) = await gatekeeper.reports("policy")
        assert {seen.name: seen.digest for seen in report.evidence}["output_schema.worker"] == kept.sha256


@pytest.mark.parametrize(
    "bound",
    [
        binding("output_schema", "review_report.v1"),
        binding("output_schema.worker", "test_report.v1"),
        binding("output_schema.boss", "task_result.v1"),
        binding("output_schema", "task_result.v1", "0" * 64),
        Artifact(name="output_schema", uri="schemas/../../secret.json", sha256="0" * 64),
        Artifact(name="output_schema.worker", uri="data:,{}", sha256="0" * 64),
    ],
)
async def test_a_contract_binds_a_schema_that_lets_anything_pass(
    bound: Artifact, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository)
    contract = replace(contract, inputs=replace(contract.inputs, artifacts=(bound,)))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, contract, "output_schema_mismatch", "output_schema")


@pytest.mark.parametrize("field", ["identity.agent_id", "tool_permissions.network", "handoff.eligible"])
async def test_a_role_view_that_differs_from_its_contract(field: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    contract = contract_on(repository)
    part, name = field.split(".")
    view = resolve_role(contract)
    other = {"agent_id": "worker-2", "network": "allow", "eligible": True}[name]
    view = replace(view, **{part: replace(getattr(view, part), **{name: other})})
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await refused(gatekeeper, replace(contract, role_contract=view), "role_contract_drift", f"role_contract.{field}")


def change_roles(folder: Path, role: str, dispatches: list[str]) -> None:
    path = folder / "roles.json"
    table = json.loads(path.read_text())
    next(known for known in table["roles"] if known["role"] == role)["may_dispatch_to"] = dispatches
    path.write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("role", "dispatches"), [("WORKER", ["WORKER"]), ("REVIEWER", ["WORKER"]), ("TECH_LEAD", ["PM"]), ("PM", ["PM"])]
)
def test_no_role_table_lets_a_worker_dispatch(role: str, dispatches: list[str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    change_roles(folder, role, dispatches)
    with pytest.raises(ConfigurationError, match=r"roles\.json"):
        load(folder)


async def test_an_operator_may_forbid_more_than_the_table_that_comes_with_it(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    change_roles(folder, "PM", ["TECH_LEAD"])
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path, policies=folder) as gatekeeper:
        await refused(gatekeeper, contract_on(repository), "dispatch_forbidden", "dispatch.table")
