"""New and changed tests on the baseline's sources, where they must fail: a test that passes there shows nothing of the change.

The tree of that run is the baseline with the tests, test data and runner settings of the change alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import RedFirst
from gatewright.ecosystems.port import Purpose, TreeFiles
from gatewright.ecosystems.records import RunnerReport
from gatewright.ecosystems.runner.names import is_test_data
from gatewright.ecosystems.test_syntax.comparing import FUNCTION, ComparedTests, Versions, answer_in, test_key
from gatewright.errors import GatewrightError
from gatewright.git.changes import TreeChange
from gatewright.git.modes import REGULAR
from gatewright.rules.reports.proof import file_of, test_of_case
from gatewright.sandbox import Completed
from gatewright.services.testrunner.baseline_tests import BY_A_SIGNAL, deciding_paths, partial_tree, run_on_tree
from gatewright.services.testrunner.before import bound_time
from gatewright.services.testrunner.comparison import list_some
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented
from gatewright.services.testrunner.place import CommandPlace
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces

#: Tests that are run; the others have no result.
_MOST: Final = 1000
#: Changed test files that are read, their bytes, and seconds for all of them.
_MOST_FILES, _MOST_BYTES, _READING = 200, 16 << 20, 20.0
#: The exit codes of runners that found no test to run, and no fault either.
_NOTHING_RAN: Final = {("pytest", 5), ("unittest", 5)}
#: Files that no test is about.
_DOCUMENTS: Final = (b".md", b".rst", b".adoc")


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """How the command ended on the candidate: its tests, and those of the baseline; None if these are unknown."""

    completed: Completed
    report: RunnerReport
    before: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class _ChosenTests:
    """The ids to run, by test: cases of a parametrised test are one. ``unknown``: number of tests that may have changed."""

    ids: Mapping[str, Sequence[str]]
    unknown: int


class RedFirstRuns:
    """Runs new and changed tests without the rest of their change."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces
        self._judge = BoundedJudge(FUNCTION, ProcessBounds(_READING))

    async def run(
        self, subject: Instrumented, place: CommandPlace, tree: TreeFiles, result: CandidateResult
    ) -> RedFirst | None:
        """Return None when the change touches no tests. ``tree`` is the candidate's.

        Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
        """
        candidate = place.candidate
        changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
        deciding = await deciding_paths(subject.argv, changes, tree, candidate)
        if not deciding:
            return None
        deciding |= {change.path for change in changes if is_test_data(change.path)}
        others = frozenset(change.path for change in changes) - deciding
        if all(path.lower().endswith(_DOCUMENTS) for path in others):
            return RedFirst(not_applicable="the change has tests alone")
        if result.before is None:
            return RedFirst(unproven="the tests of the baseline are not known")
        chosen = await self._choose([change for change in changes if change.path in deciding], candidate, tree, result)
        if not chosen.ids:
            return RedFirst(not_applicable="the change has no new or changed test", unknown_count=chosen.unknown)
        only = tuple(each for ids in list(chosen.ids.values())[:_MOST] for each in ids)
        bounded = bound_time(place, result.completed)
        tried = await run_on_tree(
            replace(subject, limits=bounded.limits),
            bounded,
            await partial_tree(candidate, changes, others),
            AskedRun(Purpose.COLLECT, only),
            self._workspaces,
        )
        return _facts(chosen, *tried) if tried is not None else RedFirst(unproven="the command starts no known framework there")

    async def _choose(
        self, changes: Sequence[TreeChange], candidate: RebuiltCandidate, tree: TreeFiles, result: CandidateResult
    ) -> _ChosenTests:
        """Choose the tests of changed files that passed, and are new or have another text.

        A test that moved with its text is not new.
        """
        paths = [change.path.decode("utf-8", "replace") for change in changes if change.new_mode in REGULAR]
        passed = defaultdict(list)
        for each, outcome in result.report.outcomes.items():
            if outcome == "passed":
                passed[file_of(each)].append(each)
        names = {path: name for path in paths if (name := next((n for n in _names_of(path, tree) if n in passed), ""))}
        compared = await self._compare(changes, candidate) if names else {}
        ids, unknown = defaultdict(list), set()
        for path, name in names.items():
            for each in passed[name]:
                is_chosen = _is_chosen(each, compared.get(path), result.before or {})
                if is_chosen:
                    ids[test_of_case(each) or each].append(each)
                elif is_chosen is None:
                    unknown.add(test_of_case(each) or each)
        return _ChosenTests(ids, len(unknown))

    async def _compare(self, changes: Sequence[TreeChange], candidate: RebuiltCandidate) -> Mapping[str, ComparedTests]:
        """Compare the tests of changed files; without those that cannot be read."""
        read = [change for change in changes if {change.old_mode, change.new_mode} & REGULAR][:_MOST_FILES]
        wanted = {change.old_id for change in read if change.old_mode in REGULAR}
        wanted |= {change.new_id for change in read if change.new_mode in REGULAR}
        sizes = await candidate.mirror.sizes(wanted)
        smallest_first = sorted(sizes, key=sizes.__getitem__)
        totals = accumulate(sizes[each] for each in smallest_first)
        within = [each for each, total in zip(smallest_first, totals, strict=True) if total <= _MOST_BYTES]
        contents = await candidate.mirror.blobs(within)
        versions: Versions = {}
        for change in read:
            is_there = (change.old_mode in REGULAR, change.new_mode in REGULAR)
            found = tuple(contents.get(each) for each in (change.old_id, change.new_id))
            if all(content is not None or not there for content, there in zip(found, is_there, strict=True)):
                old, new = (content if there else None for content, there in zip(found, is_there, strict=True))
                versions[change.path.decode("utf-8", "replace")] = (old, new)
        try:
            return answer_in(await self._judge.ask(msgspec.msgpack.encode(versions)))
        except GatewrightError:  # the child gave no answer: no file can be read
            return {}


def _names_of(path: str, tree: TreeFiles) -> Iterator[str]:
    """Yield how ids may begin: runners name a file from the repository's root, or from a folder above the file."""
    yield path
    while path := path.partition("/")[2]:
        if path not in tree.paths:
            yield path


def _is_chosen(name: str, compared: ComparedTests | None, before: Mapping[str, str]) -> bool | None:
    """Return whether a test is new or changed; None if that is unknown."""
    compared = compared or ComparedTests()
    test = name.partition("::")[2]
    keys = {test_key(test), test_key(test.partition("[")[0])}
    if name not in before:
        return keys.isdisjoint(compared.moved)
    if keys & compared.changed:
        return True
    return False if keys & compared.kept else None


def _facts(chosen: _ChosenTests, completed: Completed, report: RunnerReport, rewritten: Sequence[str]) -> RedFirst:
    """Count the tests by their results. Those that a command failed to load are tests that fail."""
    if rewritten or report.forged or report.overflow:
        words = f"{', '.join(rewritten[:3])} was changed while they ran" if rewritten else "their reports are not complete"
        return RedFirst(unproven=words, unknown_count=chosen.unknown)
    stopped = completed.stopped or ("time" if completed.timed_out else "")
    has_failed = not stopped and 0 < completed.exit_code < BY_A_SIGNAL
    absent = "failed" if has_failed and (report.framework, completed.exit_code) not in _NOTHING_RAN else "unrun"
    by_result: dict[str, list[str]] = {"failed": [], "passed": [], "unrun": []}
    for number, (test, ids) in enumerate(chosen.ids.items()):
        results = {report.outcomes.get(each, absent) for each in ids} if number < _MOST else {"unrun"}
        found = "failed" if "failed" in results else "passed" if results == {"passed"} else "unrun"
        by_result[found].append(ids[0] if len(ids) == 1 else test)
    return RedFirst(
        tests=len(chosen.ids),
        failed_count=len(by_result["failed"]),
        passed_count=len(by_result["passed"]),
        passed=list_some(by_result["passed"]),
        unrun_count=len(by_result["unrun"]),
        unknown_count=chosen.unknown,
        stopped=stopped,
    )
