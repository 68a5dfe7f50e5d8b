"""Contracts that ask for more than their role may have, and words that would take the sandbox away."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract, codec
from gatewright.contracts.task_contract import RoleContract, RuntimeOptions
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Network, ToolPermissions
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.load import load
from gatewright.worker_role import resolve_role
from tests.attacks.whole_gatekeeper import RUN, contract_on, make_plan, open_gatekeeper
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository
from tests.worker.agents.tool_program import install_server

WIDE = ToolPermissions(filesystem="workspace-write", shell="on-request", network="allow", mcp_tools=())
HOSTILE_WORDS = [
    "--dangerously-bypass-approvals-and-sandbox",
    "--sandbox=danger-full-access",
    "--sandbox danger-full-access",
    "-s 'danger-full-access'",
    "-c sandbox_mode=danger_full_access",
    "--Danger-Full-Access",
    "--dangerously-skip-permissions",
    "--permission-mode bypassPermissions",
    "--yolo",
    "\uff0d\uff0ddanger-full-access",
]


async def test_wider_permissions_are_clamped_reported_and_dispatched_narrow(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository, tool_permissions=WIDE)
    contract = replace(contract, role_contract=resolve_role(contract))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is None
        (report,) = await gatekeeper.reports("policy")
        told = {outcome.rule: outcome.detail for outcome in report.rules}
        assert told["agent_registry.network"] == "asked allow, granted deny"
        assert told["agent_registry.shell"] == "asked on-request, granted never"
        assert told["agent_registry.filesystem"] == "asked workspace-write, granted"
        assert run.contract is not None
        assert run.contract.requested_permissions == WIDE
        assert run.contract.tool_permissions == replace(WIDE, shell="never", network="deny")
        assert run.contract.role_contract is not None
        assert run.contract.role_contract.tool_permissions.network == "deny"
        planned = await gatekeeper.plan()
        shard = planned.tasks[f"{RUN}.plan.w01"].contract
        assert shard is not None
        assert (shard.tool_permissions.shell, shard.tool_permissions.network) == ("never", "deny")


async def test_an_interactive_contract_widens_nothing_but_command_approvals(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository, tool_permissions=WIDE, interactive=True)
    contract = replace(contract, role_contract=resolve_role(contract))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is None
        (report,) = await gatekeeper.reports("policy")
        told = {outcome.rule: outcome.detail for outcome in report.rules}
        assert told["agent_registry.shell"] == "asked on-request, granted"
        assert told["agent_registry.network"] == "asked allow, granted deny"
        planned = await gatekeeper.plan()
        shard = planned.tasks[f"{RUN}.plan.w01"].contract
        assert shard is not None
        assert (shard.tool_permissions.shell, shard.tool_permissions.network) == ("on-request", "deny")


async def test_an_interactive_contract_stays_within_the_operators_policy(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    text = (policies / "roles.json").read_text()
    (policies / "roles.json").write_text(text.replace(', "interactive": true', ""))
    contract = contract_on(repository, tool_permissions=WIDE, interactive=True)
    contract = replace(contract, role_contract=resolve_role(contract))
    async with open_gatekeeper(repository, tmp_path, policies=policies) as gatekeeper:
        await gatekeeper.submit(contract)
        (report,) = await gatekeeper.reports("policy")
        told = {outcome.rule: outcome.detail for outcome in report.rules}
        assert told["agent_registry.shell"] == "asked on-request, granted never"
        planned = await gatekeeper.plan()
        shard = planned.tasks[f"{RUN}.plan.w01"].contract
        assert shard is not None
        assert shard.tool_permissions.shell == "never"


async def test_untrusted_and_never_have_only_no_shell_in_common(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    asked = ToolPermissions(filesystem="workspace-write", shell="untrusted", network="deny", mcp_tools=())
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository, tool_permissions=asked))
        assert run.contract is not None
        assert run.contract.tool_permissions.shell == "deny"
        (report,) = await gatekeeper.reports("policy")
        assert {rule.rule: rule.detail for rule in report.rules}["approval_policy"].startswith("unset: no shell tool")


async def test_a_claim_of_what_was_granted_is_not_believed(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository, requested_permissions=WIDE))
        assert run.contract is not None
        assert run.contract.requested_permissions is None


async def test_high_refuses_what_low_clamps(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    test = AcceptanceTest(name="unit", cmd="test -s README.md", must_pass=True)
    contract = contract_on(repository, tool_permissions=WIDE, policy_pack="high", acceptance_tests=(test,))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is not None
        assert run.failure.code == "permission_too_wide"
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize(
    ("network", "code"), [("deny", "permission_too_wide"), ("on-request", "contract_differs"), ("allow", "contract_differs")]
)
async def test_a_pm_that_asks_for_more_than_the_role_has_is_refused(
    make_repository: MakeRepository, tmp_path: Path, network: Network, code: str
) -> None:
    repository = make_repository()
    request = make_request(repository=RepositoryField(url=repository.url), allowed_paths=("README.md",))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(request)
        wide = contract_on(repository, tool_permissions=replace(WIDE, network=network), policy_pack="low")
        wide = replace(wide, rollback=replace(wide.rollback, baseline_ref=run.accepted.baseline_commit))
        run = await gatekeeper.answer("pm", wide)
        assert run.failure is not None
        assert run.failure.code == code
        assert gatekeeper.nothing_landed()


async def test_a_pm_that_lowers_the_policy_pack_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    test = AcceptanceTest(name="unit", cmd="test -s README.md", must_pass=True)
    words = {"repository": RepositoryField(url=repository.url), "allowed_paths": ("README.md",), "acceptance_tests": (test,)}
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(make_request(**words, policy_pack="high"))
        lowered = make_contract(RUN, **words, policy_pack="low")
        lowered = replace(lowered, rollback=replace(lowered.rollback, baseline_ref=run.accepted.baseline_commit))
        run = await gatekeeper.answer("pm", lowered)
        assert run.failure is not None
        assert run.failure.code == "contract_differs"
        assert "policy_pack" in run.failure.message


async def test_a_shard_that_widens_itself_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository))
        run = await gatekeeper.answer("techlead", make_plan(run, tool_permissions=WIDE))
        assert run.failure is not None
        assert run.failure.code == "permission_too_wide"
        assert gatekeeper.nothing_landed()


async def test_a_read_only_identity_lands_no_change(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    reading = ToolPermissions(filesystem="read-only", shell="never", network="deny", mcp_tools=())
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository, tool_permissions=reading))
        await gatekeeper.answer("techlead", make_plan(run, tool_permissions=reading))
        run = await gatekeeper.work(gatekeeper.patch({"README.md": b"two\n"}))
        assert run.failure is not None
        assert run.failure.code == "permission_too_wide"
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize("words", HOSTILE_WORDS)
async def test_an_executor_that_would_switch_the_sandbox_off_is_refused(
    words: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    executor = Executor(kind="command", commands=(f"python codex.py {words}",))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract_on(repository, executor=executor))
        assert run.failure is not None
        assert run.failure.code == "danger_full_access"
        assert gatekeeper.nothing_landed()


@pytest.mark.parametrize("words", HOSTILE_WORDS)
async def test_the_same_words_in_a_request_are_refused(words: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    executor = Executor(kind="command", commands=(f"python codex.py {words}",))
    request = make_request(repository=RepositoryField(url=repository.url), allowed_paths=("README.md",), executor=executor)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(request)
        assert run.failure is not None
        assert run.failure.code == "danger_full_access"


def in_provider(contract: TaskContract) -> TaskContract:
    return replace(contract, runtime_options=RuntimeOptions(provider="danger-full-access"))


def in_the_resolved_role(contract: TaskContract) -> TaskContract:
    role: RoleContract = resolve_role(contract)
    return replace(contract, role_contract=replace(role, runtime_binding=replace(role.runtime_binding, model="x --yolo")))


def in_the_bundle_of_tools(contract: TaskContract) -> TaskContract:
    return replace(contract, role_contract=replace(resolve_role(contract), mcp_bundle_ref="danger-full-access"))


def in_a_tool(contract: TaskContract) -> TaskContract:
    return replace(contract, mcp_tool_set=("gatewright.workspace", "danger_full_access"))


def in_an_acceptance_test(contract: TaskContract) -> TaskContract:
    command = "python t.py --dangerously-skip-permissions"
    return replace(contract, acceptance_tests=(AcceptanceTest(name="t", cmd=command, must_pass=True),))


def in_the_environment(contract: TaskContract) -> TaskContract:
    return replace(contract, environment=Environment(prefix="/opt/danger-full-access"))


@pytest.mark.parametrize(
    "hide",
    [in_provider, in_the_resolved_role, in_the_bundle_of_tools, in_a_tool, in_an_acceptance_test, in_the_environment],
)
async def test_full_access_is_found_where_it_hides(hide: object, make_repository: MakeRepository, tmp_path: Path) -> None:
    assert callable(hide)
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(hide(contract_on(repository)))
        assert run.failure is not None
        assert run.failure.code == "danger_full_access"
        assert gatekeeper.nothing_landed()


def test_full_access_as_a_value_is_no_contract_at_all() -> None:
    for place in (("tool_permissions",), ("role_contract", "tool_permissions")):
        contract = make_contract(RUN)
        value = json.loads(codec.encode(replace(contract, role_contract=resolve_role(contract))))
        target = value
        for name in place:
            target = target[name]
        target["filesystem"] = "danger-full-access"
        with pytest.raises(MalformedError):
            codec.decode(json.dumps(value).encode(), TaskContract)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"sandbox": "workspace-write"', '"sandbox": "danger-full-access"', "sandbox"),
        (
            '"reviewer-1", "role": "REVIEWER", "defaults": {"sandbox": "read-only"',
            '"reviewer-1", "role": "REVIEWER", "defaults": {"sandbox": "workspace-write"',
            "may not have the sandbox",
        ),
        ('"approval_policy": "never"', '"approval_policy": "on-request"', "may not have the approval policy"),
        ('"network": "deny"', '"network": "allow"', "may not have network"),
        ('"agent_id": "reviewer-1"', '"agent_id": "worker-1"', "review its own work"),
        (
            '"agent_id": "worker-1", "role": "WORKER",',
            '"agent_id": "worker-1", "role": "WORKER", "capabilities": ["--dangerously-bypass-approvals-and-sandbox"],',
            "switch the sandbox off",
        ),
        (
            '"agent_id": "worker-1", "role": "WORKER",',
            '"agent_id": "worker-1", "role": "WORKER", "codex_home": "/home/danger-full-access",',
            "switch the sandbox off",
        ),
    ],
)
def test_a_registry_beyond_a_roles_permissions_stops_the_gatekeeper(old: str, new: str, words: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    registry = folder / "agent_registry.json"
    text = registry.read_text()
    assert old in text
    registry.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=words):
        load(folder)


@pytest.mark.parametrize(("tool", "status"), [("docs.lookup", "RUNNING"), ("docs.other", "FAILED"), ("web.lookup", "FAILED")])
async def test_a_worker_gets_the_listed_tools_of_the_operators_servers_only(
    tool: str, status: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    agents = json.loads((policies / "agents.json").read_text())
    agents["tool_servers"] = [install_server(tmp_path / "servers", "lookup")]
    (policies / "agents.json").write_text(json.dumps(agents))
    repository = make_repository()
    contract = contract_on(repository)
    contract = replace(
        contract,
        executor=Executor(kind="agent", agent="codex"),
        mcp_tool_set=("gatewright.workspace", tool),
        tool_permissions=replace(contract.tool_permissions, mcp_tools=(tool,)),
        role_contract=None,
    )
    async with open_gatekeeper(repository, tmp_path, policies=policies) as gatekeeper:
        run = await gatekeeper.submit(contract)
        (report,) = await gatekeeper.reports("policy")
        codes = {violation.code for violation in report.violations}
        assert (run.status, codes) == (status, set() if status == "RUNNING" else {"tool_unknown"})


@pytest.mark.parametrize("place", ["mcp_tools", "mcp_tool_set", "role_contract.resolved_mcp_tool_set"])
async def test_an_unknown_tool_is_refused_wherever_it_is_named(
    place: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    contract = contract_on(repository)
    if place == "mcp_tools":
        contract = replace(contract, tool_permissions=replace(contract.tool_permissions, mcp_tools=("browser",)))
    elif place == "mcp_tool_set":
        contract = replace(contract, mcp_tool_set=("gatewright.workspace", "browser"))
    else:
        contract = replace(contract, role_contract=replace(resolve_role(contract), resolved_mcp_tool_set=("browser",)))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        (report,) = await gatekeeper.reports("policy")
        assert ("tool_unknown", place) in {(violation.code, violation.rule) for violation in report.violations}
        assert run.status == "FAILED"
        assert gatekeeper.nothing_landed()
