"""The egress logs of environments in a bundle: verified with the inventory, and found when they were forged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.contracts.inventory import PullFacts
from gatewright.contracts.vocabulary import Surroundings
from gatewright.egress.record import EgressLog, EgressRecord
from gatewright.environment_inventory.pulls import ARTIFACT as EGRESS_LOG
from gatewright.environment_inventory.pulls import pull_facts
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.recorded_runs import RecordedRun, make_success
from tests.evidence.test_inventories import TREE


@dataclass
class LoggedRun(RecordedRun):
    """A run whose inventory has the figures ``pull``, and whose report stores ``logs``."""

    pull: PullFacts | None = None
    logs: tuple[bytes, ...] = ()

    def tests(self, task_id: str) -> e.LabelledEvent:
        event = super().tests(task_id)
        assert isinstance(event.event, e.TestsReceived)
        report = event.event.report
        inventory = EnvironmentInventory(trees=(replace(TREE, pull=self.pull),))
        data = codec.encode(inventory)
        stored = [self.artifact(ARTIFACT, data), *(self.artifact(EGRESS_LOG, log) for log in self.logs)]
        known = Surroundings(versions={}, host={}, inventory=summary_of(inventory, data))
        return e.LabelledEvent(
            e.TestsReceived(report=replace(report, artifacts=(*report.artifacts, *stored), surroundings=known))
        )


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    written = EgressLog(tmp_path / "log")
    for number in range(3):
        record = EgressRecord("pypi", "pypi.org", "GET", f"/{number}", "allowed", "2026-01-02T00:00:00.000Z", bytes=number)
        written.append(record)
    return written.path.read_bytes()


async def codes(run: LoggedRun, folder: Path, signer: Signer, key: PrivateKey) -> set[str]:
    make_success(run=run)
    made = await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)
    return {each.code for each in verify(Path(made.location), [key.public]).findings}


async def test_a_log_with_its_figures_verifies(log: bytes, tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    facts = pull_facts(log)
    assert (facts.requests, facts.bytes) == (3, 3)
    assert await codes(LoggedRun(pull=facts, logs=(log,)), tmp_path, signer, private_key) == set()


@pytest.mark.parametrize("case", ["missing", "twice", "unnamed", "figures", "cut", "reordered", "changed", "no_log"])
async def test_a_forged_log_is_found(case: str, log: bytes, tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    lines, facts = log.splitlines(keepends=True), pull_facts(log)
    forged = {
        "cut": log[:-1],
        "reordered": b"".join(reversed(lines)),
        "changed": log.replace(b"/1", b"/9"),
        "no_log": b"{}\n",
    }.get(case, log)
    named = replace(facts, log_sha256=LoggedRun().artifact(EGRESS_LOG, forged).sha256)
    runs = {
        "missing": LoggedRun(pull=facts),
        "twice": LoggedRun(pull=facts, logs=(log, log)),
        "unnamed": LoggedRun(logs=(log,)),
        "figures": LoggedRun(pull=replace(facts, requests=2), logs=(log,)),
    }
    run = runs.get(case, LoggedRun(pull=named, logs=(forged,)))
    assert await codes(run, tmp_path, signer, private_key) == {"inventory_contradicts"}
