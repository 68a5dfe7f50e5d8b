"""Documents about positions: the report of a test, and the receipt of a push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatewright.artifacts import stored_digest
from gatewright.contracts import TestReport, codec
from gatewright.queue.commands import Test
from gatewright.queue.inputs import Tested
from gatewright.queue.state import Queue
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import Artifacts
from gatewright.services.gatekeeper.gates.landing.queued import LandedByQueue
from gatewright.services.gatekeeper.queue.composing import Composer
from gatewright.services.gatekeeper.queue.store import LandedPush
from gatewright.services.gatekeeper.queue.testing import TestPart


@dataclass(frozen=True)
class ReceiptWriter:
    artifacts: Artifacts
    composer: Composer

    async def conclude(self, queue: Queue, command: Test, parts: tuple[TestPart, ...], reports: Mapping[int, str]) -> Tested:
        outcome = "passed"
        failed = []
        for part in parts:
            data = await self.artifacts.get_artifact(reports[part.number])
            try:
                report = codec.decode(data, TestReport)
            except Exception:
                outcome = "infrastructure"
                break
            if report.status == "ERROR":
                outcome = "infrastructure"
                break
            if report.status == "FAIL":
                outcome = "failed"
                failed += [command.name for command in report.commands if command.exit_code]
        uri = await self.artifacts.put_artifact(b"parts" + repr(sorted(reports.items())).encode())
        return Tested(command.number, command.tree, command.policy_sha256, outcome, tuple(failed), stored_digest(uri))

    async def landed(self, run: Run, push: LandedPush) -> LandedByQueue:
        receipt = push.receipt
        for position in receipt.positions:
            for run_id, commit in zip(position.runs, position.commits, strict=True):
                if run_id == run.run_id:
                    uri = await self.artifacts.put_artifact(codec._CANONICAL.encode(receipt))
                    mirror = await self.composer.mirrors.open(receipt.repository)
                    await mirror.ensure(receipt.after.commit)
                    return LandedByQueue(commit, await mirror.tree_of(commit), receipt.before.commit, uri)
        raise AssertionError
