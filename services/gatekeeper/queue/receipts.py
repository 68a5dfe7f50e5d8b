"""Documents about positions: the report of a test, and the receipt of a push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gatewright.artifacts import stored_digest
from gatewright.contracts import TestReport, codec
from gatewright.errors import MalformedError
from gatewright.queue.commands import Test
from gatewright.queue.inputs import Tested
from gatewright.queue.position_report import ReportPart, report_part
from gatewright.queue.state import Queue
from gatewright.rules.reports.position import conclude
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import Artifacts
from gatewright.services.gatekeeper.gates.landing.queued import LandedByQueue
from gatewright.services.gatekeeper.queue.composing import Composer
from gatewright.services.gatekeeper.queue.store import LandedPush
from gatewright.services.gatekeeper.queue.testing import TestPart


@dataclass(frozen=True)
class ReceiptWriter:
    """Writer of these documents, which it stores as artifacts."""

    artifacts: Artifacts
    composer: Composer

    async def conclude(self, queue: Queue, command: Test, parts: Sequence[TestPart], answers: Mapping[int, str]) -> Tested:
        """Return the end of a test whose parts have all answered, and store its report.

        Args:
            queue: the queue.
            command: the test.
            parts: its parts.
            answers: URI of the answer to each part, by number.

        Raises:
            ArtifactError: an answer cannot be read.
            BusError: the artifact store does not answer.
        """
        answered: list[ReportPart] = []
        for part in parts:
            try:
                report = codec.decode(await self.artifacts.get_artifact(answers[part.number]), TestReport)
            except MalformedError:  # an error of the test runner
                return Tested(command.number, command.tree, command.policy_sha256, "infrastructure")
            answered.append(report_part(part.runs, part.contract, report))
        whole = conclude(queue.repository, queue.branch, command, answered)
        uri = await self.artifacts.put_artifact(codec.encode(whole))
        return Tested(
            command.number, command.tree, command.policy_sha256, whole.outcome, whole.failed, stored_digest(uri)
        )

    async def landed(self, run: Run, push: LandedPush) -> LandedByQueue:
        """Return how a run landed with a push, and store the receipt.

        Raises:
            GitError: the repository cannot be read.
            BusError: the artifact store does not answer.
        """
        receipt = push.receipt
        commits = {run_id: commit for each in receipt.positions for run_id, commit in zip(each.runs, each.commits, strict=True)}
        uri = await self.artifacts.put_artifact(codec.encode(receipt))
        mirror = await self.composer.mirror_at(receipt.repository, receipt.after.commit)
        commit = commits[run.run_id]
        return LandedByQueue(commit, await mirror.tree_of(commit), receipt.before.commit, uri)
