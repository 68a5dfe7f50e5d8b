"""What a compiled contract may say: no field of it is passed over by accident."""

from __future__ import annotations

import pytest
from msgspec.structs import fields, replace

from gatewright.contracts import RequestTask, RunRequest, TaskContract
from gatewright.contracts.task_contract import HandoffChain, RuntimeOptions
from gatewright.contracts.vocabulary import Agent, Network, TimeoutRetry, ToolPermissions
from gatewright.rules.contracts import NOT_COMPARED, differences, unlike_compiled
from gatewright.services.pm.compiler import compile_contract
from tests.factories import BASELINE, make_request

RUN = "run-0123456789"
#: What of a request shapes the run without being in its contract, or under another name.
NOT_IN_A_CONTRACT = {
    *("request", "requested_by", "baseline_ref", "artifacts", "idempotency_key", "language", "strict_acceptance", "mcp_tools"),
    "network",
}
#: Another value of fields that the rules look into; of all others a text is one.
CHANGED: dict[str, object] = {
    "owner_agent": Agent(role="WORKER", agent_id="pm-1"),
    "assigned_agent": Agent(role="WORKER", agent_id="another"),
    "tool_permissions": ToolPermissions(filesystem="workspace-write", shell="never", network="allow", mcp_tools=()),
    "handoff_chain": HandoffChain(enabled=True),
    "runtime_options": RuntimeOptions(provider="another"),
}
JUDGED_ELSEWHERE = {"consultation", "environment_profile", "forbidden_actions"}


def compiled(request: RunRequest) -> TaskContract:
    task = RequestTask(run_id=RUN, task_id=f"{RUN}.pm", request=request, baseline_commit=BASELINE)
    return compile_contract(task, Agent(role="PM", agent_id="pm-1"))


def reported(contract: TaskContract, request: RunRequest) -> set[str]:
    return {*differences(contract, request, BASELINE, RUN), *unlike_compiled(contract, RUN)}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("network", ["deny", "on-request", "allow"])
def test_what_the_pm_compiles_differs_in_nothing(network: Network, strict: bool) -> None:
    request = make_request(strict_acceptance=strict, network=network)
    assert compiled(request).tool_permissions.network == network
    assert reported(compiled(request), request) == set()


@pytest.mark.every_case
@pytest.mark.parametrize("name", [field.name for field in fields(TaskContract) if field.name not in JUDGED_ELSEWHERE])
def test_a_changed_field_is_reported(name: str) -> None:
    request = make_request(timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0))
    contract = replace(compiled(request), **{name: CHANGED.get(name, "changed")})
    assert name in reported(contract, request)


def test_what_is_not_compared_is_named() -> None:
    assert {name for name, why in NOT_COMPARED.items() if why != "unlike_compiled"} == JUDGED_ELSEWHERE


def test_every_field_of_a_request_is_in_the_contract_or_named() -> None:
    of_contract = {field.name for field in fields(TaskContract)}
    assert {field.name for field in fields(RunRequest)} - of_contract == NOT_IN_A_CONTRACT
