"""The risk of a change decides whether a person is asked: no change talks itself down, and nothing lands before it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.clock import Clock
from gatewright.contracts.reports import TestProof
from gatewright.contracts.vocabulary import AcceptanceTest, Scope
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import pending
from gatewright.run import events as e
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.gate_checks import LandingCheck
from gatewright.services.gatekeeper.intake.approvals import ApprovalService
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.telemetry.logs import make_logger
from tests.attacks.people import LANDING, Inbox, policies_with, signed
from tests.attacks.whole_gatekeeper import RUN, make_review, make_tests, open_gatekeeper
from tests.evidence.recorded_runs import RecordedRun
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

Rules = dict[str, object]
FILES = {"README.md": b"text\n", "requirements.txt": b"\n", "src/a.py": b"a = 1\n", "docs/b.md": b"b\n"}
ROUTING: Rules = {"version": "1", "low_paths": ["docs/", "README.md"], "high_paths": ["src/pay/"]}
RISK: Rules = LANDING | {"name": "risk", "reason": "risk_tier", "from_tier": "medium"}
DOUBTS: Rules = LANDING | {"name": "doubts", "reason": "critic"}


def with_routing(folder: Path, *asking: Rules, routing: Rules | None = None) -> Path:
    """The delivered policies with rules of risk, and of whom to ask."""
    policies = policies_with(folder, *asking)
    (policies / "routing_rules.json").write_text(json.dumps(ROUTING if routing is None else routing))
    models = json.loads((policies / "models.json").read_text())
    routes = [route | {"models": ["gpt-5.1"]} if route["role"] == "reviewer" else route for route in models["routes"]]
    (policies / "models.json").write_text(json.dumps(models | {"routes": routes}))  # no model judges its own change
    return policies


@dataclass
class Routed(Inbox):
    """A gatekeeper that tells how much a change risks."""

    async def made(self, files: dict[str, bytes | None], *, proved: bool = True, **contract: object) -> Run:
        """All work is done, and the tests were proved or not."""
        unit = (AcceptanceTest(name="unit", cmd="python -m pytest", must_pass=True),)
        await self.submit(allowed_paths=tuple(files), acceptance_tests=unit, **contract)
        await self.gatekeeper.work(self.gatekeeper.patch(files))
        await self.gatekeeper.answer("reviewer", make_review(await self.run()))
        tests = make_tests(await self.run())
        if proved:
            proof = await self.proof()
            tests = replace(tests, commands=tuple(replace(each, proof=proof) for each in tests.commands))
        return await self.gatekeeper.answer("testrunner", tests)

    async def proof(self) -> TestProof:
        """What shows that tests ran, with their table in the store."""
        recorded = RecordedRun()
        told = recorded.tests("test").event
        assert isinstance(told, e.TestsReceived)
        proof = told.report.commands[0].proof
        assert proof is not None
        await self.gatekeeper.bus.put_artifact(recorded.store.blobs[proof.table])
        return replace(proof, mutation=None, baseline_tests=None, red_first=None)


@asynccontextmanager
async def open_routed(
    repository: Repository, folder: Path, clock: Clock, *asking: Rules, routing: Rules | None = None
) -> AsyncIterator[Routed]:
    policies = with_routing(folder / "policies", *asking, routing=routing)
    async with open_gatekeeper(repository, folder, policies=policies, clock=clock) as gatekeeper:
        index = RunIndex()
        index.read_to_the_end()
        service = ApprovalService(gatekeeper.orchestrator, index, ApprovalIndex(), make_logger(), SecretScanner())
        yield Routed(gatekeeper, service, clock)


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


async def test_what_risks_little_lands_unasked_and_what_risks_more_waits(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), RISK) as routed:
        run = await routed.made({"README.md": b"other\n"})
        assert run.routing is not None
        assert (run.routing.tier, run.status, run.approvals) == ("low", "SUCCESS", {})
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_change_that_claims_to_be_harmless_still_needs_approval(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), RISK, DOUBTS) as routed:
        run = await routed.made({"docs/b.md": b"b2\n", "src/a.py": b"a = 2\n"})
        assert (run.state, [each.request.rule for each in pending(run)]) == ("AWAITING_APPROVAL", ["risk"])
        assert "1 other" in pending(run)[0].request.why
        assert routed.gatekeeper.nothing_landed()
        await routed.decide(signed(await routed.said()))
        run = await routed.run()
        assert run.status == "SUCCESS"
        found = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
        assert found.findings == ()
        assert len(found.approved) == 1


async def test_a_dependency_change_is_always_of_high_risk(repository: Repository, tmp_path: Path) -> None:
    high = RISK | {"from_tier": "high", "risk": "high"}
    async with open_routed(repository, tmp_path, HandClock(), high) as routed:
        opened = Scope(allow_dependency_change=True)
        run = await routed.made({"requirements.txt": b"left-pad\n"}, scope=opened)
        assert run.routing is not None
        assert run.routing.tier == "high"
        assert "requirements.txt" in pending(run)[0].request.why


async def test_inconclusive_tests_ask_a_critic(repository: Repository, tmp_path: Path) -> None:
    async with open_routed(repository, tmp_path, HandClock(), DOUBTS) as routed:
        run = await routed.made({"README.md": b"other\n"}, proved=False)
        (asked,) = pending(run)
        assert asked.request.why.startswith("proof_missing:")
        assert run.routing is not None
        (critic,) = (lane for lane in run.routing.lanes if lane.lane == "critic")
        assert (critic.required, critic.satisfies, critic.refs) == (True, "approval", ("doubts",))


async def test_nothing_lands_before_its_risk_is_known(repository: Repository, tmp_path: Path) -> None:
    """The landing gate refuses a replica that continues too early."""
    async with open_routed(repository, tmp_path, HandClock(), RISK) as routed:
        run = await routed.made({"src/a.py": b"a = 2\n"})
        early = replace(run, state="S4", parked_from=None, routing=None)
        verdict = await routed.gatekeeper.orchestrator.gates.answer(LandingCheck(early))
        assert verdict.report.code == "routing_missing"
        assert routed.gatekeeper.nothing_landed()


async def test_rules_in_the_target_repository_are_a_file_like_any_other(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    planted = FILES | {"policies/routing_rules.json": json.dumps({"version": "1", "low_paths": ["src/"]}).encode()}
    async with open_routed(make_repository(files=planted), tmp_path, HandClock(), RISK) as routed:
        run = await routed.made({"src/a.py": b"a = 2\n"})
        assert run.state == "AWAITING_APPROVAL"
        assert run.accepted.routing is not None
        assert run.accepted.routing.low_paths == ("docs/", "README.md")


UNUSABLE = {
    "a limit that turns itself round": ((), ROUTING | {"low_files": 60}, "high risk"),
    "a path that no tree holds": ((), ROUTING | {"low_paths": ["docs/../src/"]}, "no path"),
    "a pattern in the middle": ((), ROUTING | {"low_paths": ["docs/*.md"]}, "low_paths"),
    "a rule that approves by itself": ((RISK | {"risk": "low", "autopilot": True},), ROUTING, "cannot approve by itself"),
    "a doubt that approves itself": ((DOUBTS | {"risk": "low", "autopilot": True},), ROUTING, "cannot approve by itself"),
}


@pytest.mark.parametrize(("asking", "routing", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_the_gatekeeper_does_not_start_with_meaningless_routing_rules(
    tmp_path: Path, asking: tuple[Rules, ...], routing: Rules, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load(with_routing(tmp_path / "policies", *asking, routing=routing))


def test_a_rule_about_risk_needs_the_rules_of_risk(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs routing_rules\.json"):
        load(policies_with(tmp_path / "policies", RISK))


def test_the_rules_of_risk_are_part_of_what_the_bundle_fixes(tmp_path: Path) -> None:
    without, with_rules = load(policies_with(tmp_path / "a")), load(with_routing(tmp_path / "b"))
    assert without.sha256 != with_rules.sha256
    assert "routing_rules.json" in with_rules.digests.keys() - without.digests.keys()
