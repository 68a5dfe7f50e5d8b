"""What a bundle is given of the artifact store: not what a role stored with a secret in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.task_contract import Inputs
from gatewright.errors import ArtifactError
from gatewright.evidence.projection.screening import ScreenedArtifacts
from gatewright.ledger.run import Run
from tests.attacks import planted
from tests.attacks.real_gate import SHARD, WHEN, RealGate, artifact, default_scanner, open_gate
from tests.git.repositories import MakeRepository


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(), tmp_path) as opened:
        yield opened


def screened(gate: RealGate, run: Run | None = None) -> ScreenedArtifacts:
    return ScreenedArtifacts(gate.bus, run or gate.run, default_scanner())


async def test_a_log_with_a_secret_is_withheld(gate: RealGate) -> None:
    """A worker under somebody else's control stores its output as it is, and lists it in its result."""
    leaked = await gate.bus.put_artifact(f"token {planted.GITHUB}\n".encode())
    with pytest.raises(ArtifactError) as refused:
        await screened(gate).get_artifact(leaked)
    assert refused.value.reason == "secret_found"
    assert planted.GITHUB not in refused.value.message
    harmless = await gate.bus.put_artifact(b"3 passed\n")
    assert await screened(gate).get_artifact(harmless) == b"3 passed\n"


async def test_a_refused_patch_with_a_secret_is_withheld(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/app.py": planted.GITHUB.encode()}))
    failed = replace(gate.run, tasks={SHARD: replace(gate.task(), status="FAILED", result=result)})
    with pytest.raises(ArtifactError):
        await screened(gate, failed).get_artifact(result.git.patch)


async def test_a_patch_that_passed_may_show_the_leaked_value_that_it_removes(gate: RealGate) -> None:
    result = await gate.worked(f"-key = '{planted.GITHUB}'\n".encode())
    passed = replace(gate.run, tasks={SHARD: replace(gate.task(), status="SUCCESS", result=result)})
    assert planted.GITHUB.encode() in await screened(gate, passed).get_artifact(result.git.patch)


async def test_inputs_with_a_secret_are_kept_only_by_a_run_that_succeeded(gate: RealGate) -> None:
    uri = await gate.bus.put_artifact(planted.GITHUB.encode())
    task = gate.task()
    assert task.contract is not None
    given = replace(task.contract, inputs=Inputs(spec="x", artifacts=(artifact("reply", uri),)))
    run = replace(gate.run, tasks={SHARD: replace(task, contract=given)})
    with pytest.raises(ArtifactError):
        await screened(gate, replace(run, state="FAILED")).get_artifact(uri)
    assert await screened(gate, replace(run, state="S6", finished_at=WHEN)).get_artifact(uri) == planted.GITHUB.encode()
