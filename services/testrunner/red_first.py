"""New and changed tests on the baseline's sources, where they must fail: a test that passes there shows nothing of the change.

The tree of that run is the baseline with the tests, test data and runner settings of the change alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Final

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import RedFirst
from gatewright.ecosystems.port import Purpose, TreeFiles
from gatewright.ecosystems.records import RunnerReport
from gatewright.ecosystems.runner.names import is_test_data
from gatewright.ecosystems.test_syntax.comparing import FUNCTION, ComparedTests, Versions, answer_in, key_of_test
from gatewright.errors import GatewrightError
from gatewright.git.changes import TreeChange
from gatewright.git.modes import REGULAR
from gatewright.rules.reports.proof import file_of, test_of_case
from gatewright.sandbox import Completed
from gatewright.services.testrunner.baseline_tests import BY_A_SIGNAL, TreeRun, deciding_paths, partial_tree, run_on_tree
from gatewright.services.testrunner.before import bound_time
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.comparison import list_some
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces

#: Tests that are run; the others have no result. Files that are run once more, alone.
_MOST, _MOST_ALONE = 1000, 8
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
    """The ids to run, by test: cases of a parametrised test are one. ``files``: the changed file of each test.

    ``unknown``: number of tests that may have changed.
    """

    ids: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
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
        bounded = bound_time(place, result.completed)
        subject = replace(subject, limits=bounded.limits)

        async def run_without(left_out: frozenset[bytes], tests: Iterable[str]) -> TreeRun | None:
            only = tuple(each for test in islice(tests, _MOST) for each in chosen.ids[test])
            on_tree = await partial_tree(candidate, changes, left_out)
            return await run_on_tree(subject, bounded, on_tree, AskedRun(Purpose.COLLECT, only), self._workspaces)

        tried = await run_without(others, chosen.ids)
        if tried is None:
            return RedFirst(unproven="the command starts no known framework there")
        if fault := _fault_of(tried):
            return RedFirst(unproven=fault, unknown_count=chosen.unknown)
        results = _results_of(chosen.ids, chosen, tried)
        # A file that does not load may keep others from being built or run. Python's runners go on.
        unloaded = dict.fromkeys(chosen.files[test] for test, outcome in results.items() if outcome == "unloaded")
        is_alone = subject.framework.reports_files or (len(unloaded) < 2 and not tried.report.outcomes)
        for file in [] if is_alone else list(unloaded)[:_MOST_ALONE]:
            tests = [test for test in chosen.ids if chosen.files[test] == file]
            more = frozenset(each.encode() for each in chosen.files.values() if each != file)
            again = await run_without(others | more, tests)
            if again is not None and not _fault_of(again):
                results |= _results_of(tests, chosen, again)
        return _counted(chosen, results, tried.completed)

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
        ids, files, unknown = defaultdict(list), {}, set()
        for path, name in names.items():
            for each in passed[name]:
                is_chosen = _is_chosen(each, compared.get(path), result.before or {})
                test = test_of_case(each) or each
                if is_chosen:
                    ids[test].append(each)
                    files[test] = path
                elif is_chosen is None:
                    unknown.add(test)
        return _ChosenTests(ids, files, len(unknown))

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
    keys = {key_of_test(test), key_of_test(test.partition("[")[0])}
    if name not in before:
        return keys.isdisjoint(compared.moved)
    if keys & compared.changed:
        return True
    return False if keys & compared.kept else None


def _fault_of(tried: TreeRun) -> str:
    """Return as text why the reports of a run show nothing; empty if they do."""
    if tried.rewritten:
        return f"{', '.join(tried.rewritten[:3])} was changed while they ran"
    return "their reports are not complete" if tried.report.forged or tried.report.overflow else ""


def _results_of(tests: Iterable[str], chosen: _ChosenTests, tried: TreeRun) -> dict[str, str]:
    """Return the result of each test: that of its cases, if one failed or all passed."""
    results = {}
    for test in islice(tests, _MOST):
        found = {_result_of(each, tried) for each in chosen.ids[test]}
        results[test] = next(
            (each for each in ("failed", "unloaded") if each in found), "passed" if found == {"passed"} else ""
        )
    return results


def _result_of(name: str, tried: TreeRun) -> str:
    """Return the outcome of one case; a test that the command failed to load is ``unloaded``, one without a result is empty."""
    completed, report = tried.completed, tried.report
    if name in report.outcomes or name in report.collected:
        outcome = report.outcomes.get(name, "")
        return "" if outcome == "skipped" else outcome
    has_failed = not completed.stopped and not completed.timed_out and 0 < completed.exit_code < BY_A_SIGNAL
    return "unloaded" if has_failed and (report.framework, completed.exit_code) not in _NOTHING_RAN else ""


def _counted(chosen: _ChosenTests, results: Mapping[str, str], completed: Completed) -> RedFirst:
    """Count the tests by their results. Those that a command failed to load are tests that fail."""
    passed = [test for test, result in results.items() if result == "passed"]
    failed = sum(result in {"failed", "unloaded"} for result in results.values())
    return RedFirst(
        tests=len(chosen.ids),
        failed_count=failed,
        passed_count=len(passed),
        passed=list_some(chosen.ids[test][0] if len(chosen.ids[test]) == 1 else test for test in passed),
        unrun_count=len(chosen.ids) - failed - len(passed),
        unknown_count=chosen.unknown,
        stopped=completed.stopped or ("time" if completed.timed_out else ""),
    )
