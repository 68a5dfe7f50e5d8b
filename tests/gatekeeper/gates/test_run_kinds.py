"""Orders by kind of run: what nothing reads is refused, and what is needed is there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import RequiredOutput, TaskType
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    Environment,
    Executor,
    Person,
    Repository,
    RevertedRun,
    Scope,
    Sharding,
    SourceBranch,
    TimeoutRetry,
)
from gatewright.order_artifacts.canonical_memory import MEMORY
from gatewright.rules.contracts import with_role
from gatewright.services.gatekeeper.gates.contract.kinds import judge_kind
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from tests.factories import make_contract, make_request
from tests.gatekeeper.contexts import make_context

RUN_ID = "run-0123456789"
HEAD = SourceBranch(name="topic", head="a" * 40, base="b" * 40, commits=1)
TESTS = (AcceptanceTest(name="unit", cmd="true", must_pass=True),)
ARTIFACT = Artifact(name="notes", uri="artifact:sha256:" + "8" * 64, sha256="8" * 64)
NOWHERE = Repository(url="/srv/project", landing="none")
#: What each kind needs.
FIELDS: dict[str, dict[str, object]] = {
    "PLAN": {"allowed_paths": ("src",), "acceptance_tests": TESTS},
    "REVIEW": {"allowed_paths": (), "acceptance_tests": (), "source_branch": HEAD},
    "TEST": {"allowed_paths": (), "acceptance_tests": TESTS},
}
CHANGES: dict[str, object] = {
    "executor": Executor(kind="agent"),
    "candidates": (Executor(kind="agent"), Executor(kind="agent")),
    "audit_only": True,
    "interactive": True,
    "author": Person(name="Ada", email="ada@example.org"),
    "reverts": RevertedRun(run_id="run-0123456780", commit="a" * 40),
    "tests": "characterisation",
    "repository": Repository(url="/srv/project", landing="branch"),
    "timeout_retry": TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0),
}
OF_KINDS: dict[str, dict[str, object]] = {
    "PLAN": {
        "environment": Environment(prefix="/env"),
        "artifacts": (ARTIFACT,),
        "source_branch": HEAD,
        "scope": Scope(allow=("binary",)),
    },
    "REVIEW": {
        "environment": Environment(prefix="/env"),
        "acceptance_tests": TESTS,
        "allowed_paths": ("src",),
        "sharding": Sharding(count=2),
    },
    "TEST": {
        "source_branch": HEAD,
        "allowed_paths": ("src",),
        "sharding": Sharding(count=2),
        "scope": Scope(allow=("binary",)),
    },
}


def codes(task_type: str, **fields: object) -> list[str]:
    request = make_request(**{"task_type": task_type, "executor": None, "repository": NOWHERE, **FIELDS[task_type], **fields})
    context = make_context(RUN_ID, "policy")
    judge_kind(context, request)
    return [violation.code for violation in context.report.violations]


def order(task_type: TaskType, **fields: object) -> TaskContract:
    given = {"task_type": task_type, "executor": None, "repository": NOWHERE, **FIELDS[task_type]}
    return with_role(replace(make_contract(RUN_ID, **given), **fields))


@pytest.mark.parametrize("task_type", FIELDS)
def test_an_order_of_each_kind_is_accepted(task_type: TaskType) -> None:
    assert codes(task_type) == []
    assert codes(task_type, artifacts=(replace(ARTIFACT, name=MEMORY),)) == []
    context = make_context(RUN_ID, "policy")
    judge_contract(context, order(task_type))
    assert context.report.violations == []


@pytest.mark.parametrize("task_type", FIELDS)
@pytest.mark.parametrize("field", [*CHANGES, *sorted({name for fields in OF_KINDS.values() for name in fields})])
def test_a_field_that_nothing_reads_is_refused(task_type: str, field: str) -> None:
    fields = CHANGES | OF_KINDS[task_type]
    if field in fields:
        assert codes(task_type, **{field: fields[field]}) == ["field_unread"]


@pytest.mark.parametrize(
    ("task_type", "field"),
    [("PLAN", "allowed_paths"), ("PLAN", "acceptance_tests"), ("TEST", "acceptance_tests"), ("IMPLEMENT", "allowed_paths")],
)
def test_a_contract_without_what_it_needs_is_refused(task_type: TaskType, field: str) -> None:
    contract = make_contract(RUN_ID, **{field: ()}) if task_type == "IMPLEMENT" else order(task_type, **{field: ()})
    context = make_context(RUN_ID, "policy")
    judge_contract(context, contract)
    assert "request_incomplete" in {violation.code for violation in context.report.violations}


@pytest.mark.parametrize(
    ("kinds", "code"),
    [(("agent",), []), (("command",), ["field_unread"]), ((), ["field_unread"]), (("agent", "command"), None)],
)
def test_only_agents_call_tools_of_servers(kinds: tuple[Any, ...], code: list[str] | None) -> None:
    executors = tuple(Executor(kind=kind, commands=("x",) if kind == "command" else ()) for kind in kinds)
    one = executors[0] if len(executors) == 1 else None
    request = make_request(executor=one, candidates=executors if len(executors) > 1 else None, mcp_tools=("docs.lookup",))
    context = make_context(RUN_ID, "policy")
    judge_kind(context, request)
    assert [violation.code for violation in context.report.violations] == (["field_unread"] if code is None else code)


def test_a_review_without_a_head_is_refused() -> None:
    assert codes("REVIEW", source_branch=None) == ["request_incomplete"]


@pytest.mark.parametrize(
    ("task_type", "agent"),
    [("SEARCH", "PLAN"), ("REVIEW", "TEST"), ("TEST", "REVIEW"), ("IMPLEMENT", "PLAN"), ("PLAN", "TEST")],
)
def test_an_order_for_another_role_is_refused(task_type: TaskType, agent: TaskType) -> None:
    context = make_context(RUN_ID, "policy")
    judge_contract(context, replace(order(agent), task_type=task_type))
    assert "dispatch_forbidden" in {violation.code for violation in context.report.violations}


def test_a_search_without_a_model_is_refused() -> None:
    context = make_context(RUN_ID, "policy")
    judge_kind(context, make_request(task_type="SEARCH"))
    assert {violation.code for violation in context.report.violations} == {"executor_missing", "field_unread"}


def test_an_output_that_the_kind_does_not_make_is_refused() -> None:
    output = RequiredOutput(name="patch", type="patch", acceptance="applies")
    context = make_context(RUN_ID, "policy")
    judge_kind(context, replace(order("TEST"), required_outputs=(output,)))
    assert [violation.code for violation in context.report.violations] == ["field_unread"]
