"""Suites that are run for real: the test runner's own handler, in a sandbox, with a Python that has pytest and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gatewright.contracts import TaskContract, TestReport, codec
from gatewright.contracts.reports import TestProof
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Agent,
    AuditRequirement,
    CoverageRequirement,
    Environment,
    PolicyPack,
)
from gatewright.rules.broken import Broken
from gatewright.rules.reports.proof import Testing, broken_by_environment, broken_by_proof
from gatewright.rules.reports.tests import broken_by_tests, match_commands
from gatewright.services.testrunner.handler import TestRunnerHandler, make_handler
from gatewright.services.testrunner.settings import Settings
from tests.ecosystems.environments import plain_environment
from tests.handler_fixture import HandlerFixture, RunningClock, make_handler_fixture

PYTEST = "python -m pytest -q"
CODE = {
    "pricing.py": b"def price(number):\n    return number * 2\n",
    "tests/test_pricing.py": (
        b"import pytest\n\nfrom pricing import price\n\n\n"
        b"@pytest.mark.parametrize('number', [1, 2])\ndef test_doubles(number):\n    assert price(number) == number * 2\n\n\n"
        b"def test_nothing():\n    assert price(0) == 0\n"
    ),
}


class Suite:
    """A repository with tests at one baseline, and a test runner."""

    def __init__(self, folder: Path, files: Mapping[str, bytes] = CODE, prefix: Path | None = None) -> None:
        folder.chmod(0o755)
        self.prefix = prefix or plain_environment()
        self.fixture: HandlerFixture = make_handler_fixture(folder, files)
        self.runner: TestRunnerHandler = make_handler(Settings(home=self.fixture.state, environments=(self.prefix,)))
        self.contract: TaskContract | None = None

    async def tested(
        self,
        changes: Mapping[str, bytes | None],
        *commands: str,
        must_pass: bool = True,
        policy_pack: PolicyPack = "low",
        coverage: CoverageRequirement | None = None,
        audit: AuditRequirement | None = None,
        **contract: object,
    ) -> TestReport:
        """The report on the baseline with ``changes``, as the gatekeeper would get it."""
        patch = b""
        if changes:
            _, patch = await self.fixture.changed(changes)
        tests = tuple(
            AcceptanceTest(name=f"suite{number or ''}", cmd=command, must_pass=must_pass, coverage=coverage, audit=audit)
            for number, command in enumerate(commands or (PYTEST,))
        )
        task = self.fixture.contract(
            task_type="TEST",
            task_id="run-0123456789.test.a1",
            assigned_agent=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
            executor=None,
            policy_pack=policy_pack,
            acceptance_tests=tests,
            **{"environment": Environment(prefix=str(self.prefix)), **contract},
        )
        inputs = Inputs(spec="test it", artifacts=(self.fixture.artifacts.hold("candidate.patch", patch),))
        self.contract = replace(task, inputs=inputs)
        report = await self.runner.handle(self.contract, self.fixture.context(RunningClock()))
        return codec.decode(codec.encode(report), TestReport)

    def judged(self, report: TestReport, testing: Testing = "proved") -> tuple[Broken, ...]:
        """What the tests gate finds wrong with the report, by its rules."""
        assert self.contract is not None
        assert report.tree is not None
        found = broken_by_tests(report, report.tree, self.contract)
        ordered = match_commands(report, self.contract)[0]
        return (*broken_by_environment(ordered), *found, *broken_by_proof(ordered, self.contract, testing))

    def printed(self, report: TestReport) -> str:
        """What the last command wrote."""
        last = report.commands[-1]
        return "".join(self.fixture.artifacts.stored[uri].decode() for uri in (last.stdout, last.stderr) if uri)

    def table(self, report: TestReport) -> list[str]:
        """The stored table of the last command, line by line."""
        return self.fixture.artifacts.stored[proof_of(report).table].decode().splitlines()


def proof_of(report: TestReport) -> TestProof:
    """Of the last command."""
    proof = report.commands[-1].proof
    assert proof is not None
    return proof


def codes(broken: tuple[Broken, ...]) -> list[str]:
    """The reason codes, each once."""
    return list(dict.fromkeys(each.code for each in broken))
