"""Hidden acceptance checks before anything runs: what a publisher may say of them, and what a pm or a tech lead may not."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from gatewright import scope
from gatewright.artifacts import inline_uri
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Artifact, AuditRequirement, CoverageRequirement, Repository
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.contracts import differences
from gatewright.rules.shards import broken_by_shard, shard_of
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository

SEEN = AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True)
HIDDEN = AcceptanceTest(name="held-out", cmd="python -m pytest -q tests/held_out.py", must_pass=True, hidden=True)
AUDIT = AuditRequirement(file="out.sarif")
COVERAGE = CoverageRequirement(file="coverage.xml", changed_lines_percent=80)


def file(path: str, content: bytes = b"assert True\n") -> Artifact:
    return Artifact(name=f"hidden:{path}", uri=inline_uri(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(
    ("tests", "files", "code"),
    [
        ((SEEN, HIDDEN), (file("tests/held_out.py"),), "ok"),
        # In the place of a file that the change may not touch: it is shown to the hidden commands alone, and never lands.
        ((SEEN, HIDDEN), (file("conftest.py"),), "ok"),
        ((HIDDEN,), (), "hidden_acceptance_invalid"),
        ((SEEN, replace(HIDDEN, name="unit")), (), "hidden_acceptance_invalid"),
        ((SEEN, replace(HIDDEN, coverage=COVERAGE)), (), "hidden_acceptance_invalid"),
        ((SEEN, replace(HIDDEN, audit=AUDIT)), (), "hidden_acceptance_invalid"),
        ((replace(SEEN, audit=replace(AUDIT, min_score=3.0)),), (), "audit_invalid"),
        ((replace(SEEN, audit=AUDIT),), (), "ok"),
        ((replace(SEEN, coverage=COVERAGE), HIDDEN), (), "ok"),
        ((SEEN,), (file("tests/held_out.py"),), "hidden_acceptance_invalid"),
        ((SEEN, HIDDEN), (file("Tests/a.py"), file("tests/a.py")), "hidden_acceptance_invalid"),
        ((SEEN, HIDDEN), (file("../held_out.py"),), "unsafe_path"),
        ((SEEN, HIDDEN), (file(".git/hooks/pre-commit"),), "unsafe_path"),
        ((SEEN, HIDDEN), tuple(file(f"t/{number}.py") for number in range(201)), "provided_too_large"),
        ((SEEN, replace(HIDDEN, cmd="curl example.org")), (), "action_forbidden"),
    ],
)
async def test_intake_judges_what_a_request_declares_as_hidden_checks(
    tests: tuple[AcceptanceTest, ...],
    files: tuple[Artifact, ...],
    code: str,
    gates: GateEngine,
    make_repository: MakeRepository,
) -> None:
    repository = Repository(url=make_repository().url)
    request = make_request(repository=repository, acceptance_tests=tests, artifacts=files)
    verdict = await gates.answer(IntakeCheck("run-0123456789", request))
    assert verdict.report.code == code, verdict.report.violations


def test_a_pm_that_orders_a_hidden_check_of_its_own_is_refused() -> None:
    request = make_request(acceptance_tests=(SEEN,))
    contract = make_contract(acceptance_tests=(SEEN, HIDDEN))
    assert "acceptance_tests" in set(differences(contract, visible(request), "0" * 40, "run-0123456789"))


@pytest.mark.parametrize("tests", [(SEEN, HIDDEN), (HIDDEN,)])
def test_a_tech_lead_that_reveals_a_hidden_check_is_refused(tests: tuple[AcceptanceTest, ...]) -> None:
    contract = make_contract(acceptance_tests=(SEEN, HIDDEN))
    producer = Agent(role="TECH_LEAD", agent_id="techlead-1")
    shard = shard_of(contract, "run-0123456789.plan.w01", contract.allowed_paths, producer)
    allowed = scope.AllowedPaths(contract.allowed_paths)
    assert list(broken_by_shard(shard, contract, allowed, "run-0123456789")) == []
    telling = replace(shard, acceptance_tests=tests)
    assert [broken.code for broken in broken_by_shard(telling, contract, allowed, "run-0123456789")] == ["plan_invalid"]
