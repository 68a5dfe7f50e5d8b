"""The report of one test of a queue: the answers of all its parts, and the outcome that follows from them."""

from __future__ import annotations

from gatewright.budgets import command_seconds
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.queue_receipt import OrderedCommand, ReportPart
from gatewright.profiles.choice import image_of
from gatewright.sandbox.argv import parse_command


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
