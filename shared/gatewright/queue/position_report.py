"""The report of one test of a queue: the answers of all its parts, and the outcome that follows from them."""

from __future__ import annotations

from gatewright.budgets import command_seconds
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.queue_policy import Outcome
from gatewright.contracts.vocabulary import Document, NonEmpty, ObjectId, Positive, RunId, Seconds, Sha256
from gatewright.profiles.choice import image_of
from gatewright.sandbox.argv import parse_command


class OrderedCommand(Document, frozen=True):
    """A command of a part, as it was ordered."""

    name: NonEmpty
    argv: tuple[str, ...]
    must_pass: bool = True
    may_rerun: bool = False


class ReportPart(Document, frozen=True):
    """One task of a test, and its answer.

    ``runs``: the runs whose acceptance commands it ran; empty for the standing commands. ``timeout_sec``: limit of a command.
    ``image``: the image whose programs the commands had to see.
    """

    runs: tuple[RunId, ...]
    commands: tuple[OrderedCommand, ...]
    timeout_sec: Seconds
    report: TestReport
    image: NonEmpty | None = None


class PositionReport(Document, frozen=True):
    """Test ``number`` of a queue, on ``tree``. ``failed``: names of tests that failed, or else of their commands."""

    repository: NonEmpty
    branch: NonEmpty
    number: Positive
    tree: ObjectId
    policy_sha256: Sha256
    outcome: Outcome
    failed: tuple[NonEmpty, ...]
    parts: tuple[ReportPart, ...]


def report_part(runs: tuple[str, ...], contract: TaskContract, report: TestReport) -> ReportPart:
    """Return the part with the commands that the task ``contract`` ordered.

    Raises:
        CommandRefusedError: a command of the contract is no plain argv.
    """
    commands = tuple(
        OrderedCommand(name=each.name, argv=parse_command(each.cmd), must_pass=each.must_pass, may_rerun=each.may_rerun)
        for each in contract.acceptance_tests
    )
    seconds, image = command_seconds(contract), image_of(contract)
    return ReportPart(runs=runs, commands=commands, timeout_sec=seconds, report=report, image=image)
