"""Contracts with candidates: every one of them is judged as a lone executor would be, and nothing stands beside them."""

from __future__ import annotations

import pytest

from gatewright.contracts.vocabulary import Executor, Repository, Sharding
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck, IntakeVerdict
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository

RUN = "run-0123456789"
FORMAT = Executor(kind="command", commands=("ruff format {paths}",))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"candidates": (FORMAT, Executor(kind="agent", agent="codex"))}, ""),
        ({"candidates": (FORMAT, FORMAT), "sharding": Sharding(count=1)}, ""),
        ({"candidates": (FORMAT, FORMAT), "executor": FORMAT}, "executor_contradicts"),
        ({"candidates": (FORMAT, FORMAT), "sharding": Sharding(count=2)}, "candidates_in_parts"),
        ({"candidates": (FORMAT, Executor(kind="agent", agent="no-such-agent"))}, "agent_unknown"),
        ({"candidates": (FORMAT, Executor(kind="command", commands=("bash -c true",)))}, "command_not_allowed"),
        ({"candidates": (FORMAT, Executor(kind="command"))}, "executor_missing"),
        ({"candidates": (FORMAT, Executor(kind="reply", artifacts=("none",)))}, "executor_missing"),
        (
            {
                "candidates": (
                    FORMAT,
                    Executor(kind="command", commands=("ruff format --dangerously-bypass-approvals-and-sandbox",)),
                )
            },
            "danger_full_access",
        ),
    ],
    ids=[
        *("a_mixture", "one_part", "an_executor_beside_them", "a_split", "an_unknown_agent", "a_command_off_the_list"),
        *("no_command", "no_reply", "full_access"),
    ],
)
@pytest.mark.parametrize("kind", ["request", "contract"])
async def test_every_candidate_is_judged_as_a_lone_executor_would_be(
    gates: GateEngine, make_repository: MakeRepository, kind: str, fields: dict[str, object], code: str
) -> None:
    fields = {"repository": Repository(url=make_repository().url, landing="none"), "executor": None, **fields}
    document = make_request(**fields) if kind == "request" else make_contract(RUN, **fields)
    verdict = await gates.answer(IntakeCheck(RUN, document))
    assert isinstance(verdict, IntakeVerdict)
    about = {"executor_contradicts", "candidates_in_parts", "agent_unknown", "executor_missing", "danger_full_access"}
    found = {violation.code for violation in verdict.report.violations}
    assert (code in found) if code else not found & about, verdict.report


async def test_a_contract_that_calls_itself_a_candidate_is_none(gates: GateEngine, make_repository: MakeRepository) -> None:
    contract = make_contract(repository=Repository(url=make_repository().url), candidate=1)
    verdict = await gates.answer(IntakeCheck(RUN, contract))
    assert isinstance(verdict, IntakeVerdict)
    document = verdict.document
    assert getattr(document, "candidate", 0) is None
