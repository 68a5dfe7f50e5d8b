"""Results by test in the verdict of the tests gate, and remarks on flaky tests. They refuse and permit nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from gatewright.contracts import TestReport
from gatewright.contracts.reports import PlayedTests, TestCommand
from gatewright.contracts.run_status import MOST_FLAKY_DAYS
from gatewright.errors import ArtifactError
from gatewright.rules.reports.flakes import MOST_NAMES, RecordedTests, flake_words, played_tests, read_outcomes, tally_tests
from gatewright.rules.reports.tests import match_commands
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import Artifacts, GateContext

#: Earlier tables of the same tree in which a failed test is searched.
_MOST_TABLES = 3


class TestHistory(Protocol):
    """Results by test of earlier reports."""

    def records(self, repository: str, since: datetime, visible: Callable[[str], bool]) -> Sequence[RecordedTests]:
        """Return the known reports of a repository, of publishers that are ``visible``."""


async def judge_played(context: GateContext, tests: TestReport, run: Run, history: TestHistory | None) -> None:
    """Record results by test, and remark on flaky tests.

    Hidden commands are left out, since makers may read the verdict. So are results that are not about the candidate's tree.

    Raises:
        BusError: the artifact store does not answer.
    """
    key, tree = run.accepted.repository_key, run.candidate.tree if run.candidate is not None else ""
    if history is None or run.contract is None or tests.status == "ERROR" or not tree or tests.tree != tree:
        return
    rule, since = context.policies.publishers.of(run.publisher), context.now - timedelta(days=MOST_FLAKY_DAYS)
    sees_all = rule is not None and rule.may_see == "any"
    known = history.records(key, since, lambda name: sees_all or name == run.publisher)
    earlier = [part for record in reversed(known) for part in record.played]
    found: list[PlayedTests] = []
    shown = [one for one in match_commands(tests, run.contract)[0] if not one.test.hidden]
    for command in (command for one in shown for command in one.runs):
        same = [part for part in (*found, *earlier) if part.cmd_argv == command.cmd_argv]
        most = MOST_NAMES // len(tests.commands)
        found += await _read_results(context.artifacts, command, (tree, run.accepted.baseline_tree), same, most)
    context.report.played = tuple(found)
    records = [*known, RecordedTests(run.run_id, key, run.publisher, "9", context.report.played)]
    for words in await asyncio.to_thread(lambda: tuple(dict.fromkeys(_flakes(records)))):
        context.report.remark("acceptance_tests", words)


def _flakes(records: Sequence[RecordedTests]) -> Iterator[str]:
    """Yield a sentence for each flaky test of the last report."""
    own, tallies = records[-1], tally_tests(records)
    for part in own.played:
        for name in (*part.failed, *part.passed):
            if words := flake_words(name, tallies[own.repository, part.cmd_argv, name], part):
                yield words


async def _read_results(
    artifacts: Artifacts, command: TestCommand, trees: tuple[str, str], same: Sequence[PlayedTests], most: int
) -> list[PlayedTests]:
    """Return the results of a command, as ``played_tests``. ``same``: the command's earlier results."""
    outcomes = await _outcomes(artifacts, command.proof.table) if command.proof is not None else {}
    if not (found := played_tests(command, outcomes, trees, most)):
        return []
    watched = dict.fromkeys(name for part in same for name in part.failed)
    passed = tuple(islice((name for name in watched if outcomes.get(name) == "passed"), most))
    parts = (replace(found[0], passed=passed), *found[1:])
    return [replace(part, passed_before=await _passed_before(artifacts, part, same)) for part in parts]


async def _passed_before(artifacts: Artifacts, part: PlayedTests, same: Sequence[PlayedTests]) -> tuple[str, ...]:
    """Return failed tests that passed on the same tree, by earlier tables, unless a report has named them so already."""
    on_tree = [each for each in same if each.tree == part.tree]
    unknown = set(part.failed).difference(*((*each.passed, *each.passed_before) for each in on_tree))
    tables = dict.fromkeys(each.table for each in on_tree if each.table)
    outcomes = [await _outcomes(artifacts, uri) for uri in islice(tables, _MOST_TABLES if unknown else 0)]
    return tuple(sorted(name for name in unknown if any(each.get(name) == "passed" for each in outcomes)))


async def _outcomes(artifacts: Artifacts, uri: str) -> dict[str, str]:
    try:
        return await asyncio.to_thread(read_outcomes, await artifacts.get_artifact(uri))
    except ArtifactError:
        return {}  # the gate refuses a report whose artifacts are missing; those of earlier reports may have expired
