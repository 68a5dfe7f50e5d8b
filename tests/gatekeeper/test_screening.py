"""What a bundle is given of the artifact store: not what a role stored with a secret in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.task_contract import Inputs
from gatewright.errors import ArtifactError
from gatewright.evidence.projection.screening import ScreenedArtifacts
from gatewright.run.events import CandidateComposed
from gatewright.run.state import Run
from gatewright.secrets.changes import CleanContents
from gatewright.secrets.scanner import Hit, SecretScanner
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


async def test_an_applied_patch_may_show_the_leak_it_removes(gate: RealGate) -> None:
    lines = f"-key = '{planted.GITHUB}'\n+key = load()\n".encode()
    result = await gate.worked(b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n" + lines)
    passed = replace(gate.run, tasks={SHARD: replace(gate.task(), status="SUCCESS", result=result, tree="1" * 40)})
    assert planted.GITHUB.encode() in await screened(gate, passed).get_artifact(result.git.patch)
    with pytest.raises(ArtifactError):
        await screened(gate).get_artifact(result.git.patch)


async def test_inputs_with_a_secret_are_kept_only_where_the_candidate_shows_it(gate: RealGate) -> None:
    uri = await gate.bus.put_artifact(planted.GITHUB.encode())
    task = gate.task()
    assert task.contract is not None
    given = replace(task.contract, inputs=Inputs(spec="x", artifacts=(artifact("reply", uri),)))
    run = replace(gate.run, tasks={SHARD: replace(task, contract=given)}, state="S6", finished_at=WHEN)
    with pytest.raises(ArtifactError):
        await screened(gate, run).get_artifact(uri)
    shows = await gate.bus.put_artifact(f"-key = '{planted.GITHUB}'\n".encode())
    composed = CandidateComposed(tree="1" * 40, patch=shows, names=shows, changed_files=1, changed_lines=1, candidate=0)
    assert await screened(gate, replace(run, candidate=composed)).get_artifact(uri) == planted.GITHUB.encode()
    assert await screened(gate, replace(run, candidate=composed)).get_artifact(shows)


class CountingScanner(SecretScanner):
    """Remembers how many bytes it was given."""

    searched = 0

    def find(self, data: bytes) -> tuple[Hit, ...]:
        self.searched += len(data)
        return super().find(data)


async def test_patch_of_the_candidate_is_not_searched_again_for_what_files_get(gate: RealGate) -> None:
    """A lock file of megabytes was searched when it was judged; the seal of its run waits for nothing."""
    lines = b"".join(b"+package %d = 1.0.%d\n" % (number, number) for number in range(1000))
    mail = b"From: a\nSubject: words\n\n"
    patch = mail + b"--- /dev/null\n+++ b/src/x.lock\n@@ -0,0 +1,1000 @@\n" + lines
    result = await gate.worked(patch)
    done = replace(gate.task(), status="SUCCESS", result=result, tree="1" * 40)
    names = await gate.bus.put_artifact(b"src/x.lock\0")
    composed = CandidateComposed(
        tree="1" * 40, patch=await gate.bus.put_artifact(b"x"), names=names, changed_files=1, changed_lines=1, candidate=0
    )
    run = replace(gate.run, tasks={SHARD: done}, candidate=composed)
    scanner = CountingScanner()
    assert await ScreenedArtifacts(gate.bus, run, scanner).get_artifact(result.git.patch) == patch
    assert len(mail) <= scanner.searched < 100
    assert await ScreenedArtifacts(gate.bus, replace(run, candidate=None), scanner).get_artifact(result.git.patch) == patch
    assert scanner.searched > len(lines)


async def test_seal_that_is_tried_again_searches_nothing_again(gate: RealGate) -> None:
    uri = await gate.bus.put_artifact(b"nothing to see\n" * 1000)
    scanner, clean = CountingScanner(), CleanContents()
    for _ in range(2):
        await ScreenedArtifacts(gate.bus, gate.run, scanner, clean).get_artifact(uri)
    assert scanner.searched == 15_000
