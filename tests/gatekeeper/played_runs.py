"""Runs of a whole gatekeeper whose test runner reports results by test, for tests about flaky tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from gatewright.bus.topology import run_subject
from gatewright.contracts import GateReport, TestReport
from gatewright.contracts.reports import TestCommand, TestCounts, TestProof
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.ecosystems.records import write_table
from gatewright.services.gatekeeper.projections.entries import read_entry
from gatewright.services.gatekeeper.projections.played_index import PlayedIndex
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, make_tests, open_gatekeeper
from tests.git.repositories import Repository

COMMAND = "python -m pytest -q"
Outcomes = Mapping[str, str]


@dataclass
class PlayedRuns:
    """One run after another on ``gatekeeper``. ``index`` has read the ledger after each of them."""

    gatekeeper: Gatekeeper
    index: PlayedIndex
    patches: dict[str, bytes] = field(default_factory=dict)
    number: int = 0

    async def play(
        self,
        *results: Outcomes,
        text: str = "one",
        cmd: str = COMMAND,
        publisher: str = "default",
        hidden: bool = False,
        proof: Mapping[str, object] | None = None,
    ) -> GateReport:
        """Make a run that writes ``text``, whose command has the ``results``; the verdict of its tests gate."""
        self.number += 1
        keeper = replace(self.gatekeeper, key=f"order {self.number}", publisher=publisher)
        test = AcceptanceTest(name="unit", cmd=cmd, must_pass=True, may_rerun=len(results) > 1, hidden=hidden)
        beside = (AcceptanceTest(name="shown", cmd="true", must_pass=True),) if hidden else ()
        await keeper.submit(contract_on(keeper.repository, acceptance_tests=(*beside, test)))
        await keeper.plan()
        if text not in self.patches:
            self.patches[text] = keeper.patch({"README.md": text.encode()})
        await keeper.work(self.patches[text])
        run = await keeper.review()
        report = make_tests(run)
        *others, command = report.commands
        runs = [await self._command(command, each, number, proof or {}) for number, each in enumerate(results, 1)]
        good = runs[-1].exit_code == 0
        summary = (
            msgspec.structs.replace(report.summary, passed=len(others) + good, failed=1 - good) if report.summary else None
        )
        status: TestReport = msgspec.structs.replace(
            report, commands=(*others, *runs), status="PASS" if good else "FAIL", summary=summary
        )
        await keeper.answer("testrunner", status)
        await self.read()
        return (await keeper.reports("tests"))[-1]

    async def read(self) -> None:
        """Read the ledger again from its beginning."""
        async for message in self.gatekeeper.bus.replay(run_subject("*")):
            entry = read_entry(message)
            assert entry is not None
            self.index.saw(entry)

    @property
    def run_id(self) -> str:
        """The last run of the default publisher."""
        return replace(self.gatekeeper, key=f"order {self.number}").run_id

    async def _command(self, command: TestCommand, outcomes: Outcomes, number: int, given: Mapping[str, object]) -> TestCommand:
        failed = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
        count = {each: sum(outcome == each for outcome in outcomes.values()) for each in ("passed", "failed", "skipped")}
        proof = TestProof(
            framework="pytest",
            complete=True,
            unproven="there is no place for planted tests",
            counts=TestCounts(**count),
            failed=tuple(failed[:100]),
            table=await self.gatekeeper.bus.put_artifact(write_table(outcomes)),
        )
        proof = msgspec.structs.replace(proof, **given)
        return msgspec.structs.replace(command, exit_code=int(bool(failed)), run=number, duration_sec=0, proof=proof)


@asynccontextmanager
async def open_played_runs(repository: Repository, folder: Path, index: PlayedIndex | None = None) -> AsyncIterator[PlayedRuns]:
    """A gatekeeper with an index that has read its ledger."""
    known = index or PlayedIndex()
    async with open_gatekeeper(repository, folder) as gatekeeper:
        orchestrator = gatekeeper.orchestrator
        gates = replace(orchestrator.gates, history=known)
        yield PlayedRuns(replace(gatekeeper, orchestrator=replace(orchestrator, gates=gates)), known)
