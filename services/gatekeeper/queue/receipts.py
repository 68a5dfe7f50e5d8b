"""Documents about positions: the report of a test, and the receipt of a push."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gatewright.artifacts import stored_digest, stored_uri
from gatewright.contracts import PositionReport, QueueReceipt, TestReport, codec
from gatewright.contracts.queue_receipt import GitObject, ReportPart
from gatewright.errors import MalformedError
from gatewright.git.mirror import Mirror
from gatewright.queue.commands import Test
from gatewright.queue.inputs import Tested
from gatewright.queue.receipt import missing_objects, receipt_bytes
from gatewright.queue.state import Queue
from gatewright.rules.reports.position import conclude, report_part
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import Artifacts
from gatewright.services.gatekeeper.gates.landing.queued import LandedByQueue
from gatewright.services.gatekeeper.queue.composing import Composer
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
        whole = conclude(queue.identity, queue.branch, command, answered)
        uri = await self.artifacts.put_artifact(codec.encode(whole))
        return Tested(command.number, command.tree, command.policy_sha256, whole.outcome, whole.failed, stored_digest(uri))

    async def landed(self, run: Run, receipt: QueueReceipt) -> LandedByQueue:
        """Return how a run landed with a push, and store the receipt.

        Raises:
            GitError: the repository cannot be read.
            ArtifactError: a report cannot be read.
            BusError: the artifact store does not answer.
        """
        mirror = await self.composer.mirror_at(run.accepted.repository_url, receipt.after.commit)
        commit = receipt.commits()[run.run_id]
        uri = await self.artifacts.put_artifact(await self.complete(receipt, mirror))
        return LandedByQueue(commit, await mirror.tree_of(commit), receipt.before.commit, uri)

    async def complete(self, receipt: QueueReceipt, mirror: Mirror) -> bytes:
        """Return the bytes of a receipt with its reports and git objects. All its commits must be in the mirror.

        Raises:
            GitError: the mirror cannot be read.
            ArtifactError: a report cannot be read.
            BusError: the artifact store does not answer.
            MalformedError: the receipt is too large (``receipt_too_large``).
        """
        digests = dict.fromkeys(each.report_sha256 for each in receipt.positions if each.report_sha256)
        stored = [await self.artifacts.get_artifact(stored_uri(digest)) for digest in digests]
        commits = {receipt.before.commit, *receipt.commits().values()}
        objects: list[GitObject] = []
        while missing := missing_objects(receipt, objects):
            found = await mirror.raw_objects(missing & commits, "commit")
            objects += [GitObject(kind="commit", data=data) for data in found.values()]
            found = await mirror.raw_objects(missing - commits, "tree")
            objects += [GitObject(kind="tree", data=data) for data in found.values()]
        return receipt_bytes(receipt, (codec.decode(each, PositionReport) for each in stored), objects)
