"""The definition of done, from a run's own records: shards, owners, tests, open violations, audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.reports import TestCommand
from gatewright.rules.broken import Broken
from gatewright.rules.reports.tests import passed
from gatewright.run.state import Run

#: Rules of the definition of done, in the landing gate's names and order.
RULES: tuple[str, ...] = (
    "completion.shards",
    "completion.owned_files",
    "completion.tests",
    "completion.open_violations",
    "completion.required_outputs",
    "completion.documentation",
    "completion.audit_only",
)
SHARDS, OWNERS, TESTS, VIOLATIONS, OUTPUTS, DOCUMENTS, AUDIT = RULES


def open_shards(run: Run) -> Iterator[Broken]:
    """Yield planned shards that were not dispatched, done and accepted."""
    workers = run.workers()
    planned = len(run.plan.contracts) if run.plan else 0
    if not planned or len(workers) != planned:
        words = f"{planned} shards were planned, {len(workers)} were given out"
        yield Broken("completion_shards_open", SHARDS, words)
    for task in workers:
        if task.status != "SUCCESS" or task.result is None or task.result.status != "SUCCESS" or not task.tree:
            yield Broken("completion_shards_open", SHARDS, f"{task.task_id} is not done: {task.status}")


def files_without_owner(run: Run, contract: TaskContract, changed: tuple[bytes, ...]) -> Iterator[Broken]:
    """Yield changed files outside the contract's paths, or not in exactly one shard."""
    owned = [task.contract.allowed_paths for task in run.workers() if task.contract is not None]
    for path in scope.outside(contract.allowed_paths, changed):
        yield Broken("completion_file_not_owned", OWNERS, "outside the contract's paths", path)
    owners = Counter(path for paths in owned for path in set(changed).difference(scope.outside(paths, changed)))
    for path in changed:
        if owners[path] != 1:
            yield Broken("completion_file_not_owned", OWNERS, f"{owners[path]} shards own it; it must be one", path)


def missing_tests(run: Run, contract: TaskContract) -> Iterator[Broken]:
    """Yield required tests that did not run on the candidate or did not pass."""
    tree = run.candidate.tree if run.candidate else ""
    if run.tests is None or not run.tests_passed or not tree or run.tests.tree != tree:
        yield Broken("completion_tests_missing", TESTS, "no passed test report is about the candidate's tree")
        return
    final: dict[str, TestCommand] = {command.name: command for command in run.tests.commands}
    for name in (test.name for test in contract.acceptance_tests if test.must_pass):
        if name not in final:
            yield Broken("completion_tests_missing", TESTS, f"{name} did not run")
        elif not passed(final[name]):
            yield Broken("completion_tests_missing", TESTS, f"{name} did not pass")


def open_violations(run: Run) -> Iterator[Broken]:
    """Yield an unfavourable review, and failed tasks of the attempt."""
    tree, review = run.candidate.tree if run.candidate else "", run.review
    if review is None or not tree or review.tree != tree:
        yield Broken("completion_violation_open", VIOLATIONS, "no review is about the candidate's tree")
    elif review.verdict != "PASS" or not review.scope_check.passed or any(each.blocking for each in review.findings):
        yield Broken("completion_violation_open", VIOLATIONS, f"the review's verdict is {review.verdict}")
    for task in run.tasks.values():
        if task.attempt == run.attempt and task.status != "SUCCESS":
            yield Broken("completion_violation_open", VIOLATIONS, f"{task.task_id} is {task.status}")


def audit(contract: TaskContract, changed: tuple[bytes, ...]) -> Iterator[Broken]:
    """Yield a change by an audit, or the lack of a change otherwise."""
    if contract.audit_only and changed:
        yield Broken("completion_audit_changed", AUDIT, f"an audit changed {len(changed)} files", changed[0])
    if not contract.audit_only and not changed:
        yield Broken("completion_output_missing", AUDIT, "nothing was changed, and the contract is not audit_only")
