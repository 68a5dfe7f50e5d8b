"""Compares a candidate's test results with its baseline's: facts for a ``TestProof``. Pure; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gatewright.contracts.reports import TestControl, TestCounts, TestProof
from gatewright.ecosystems.packages import loadable, unmeasured_endings, untested_packages
from gatewright.ecosystems.port import Framework, Sentinel, TreeFiles
from gatewright.ecosystems.python.pytest_settings import SETTING_FILES
from gatewright.ecosystems.records import RunnerReport
from gatewright.rules.reports.proof import file_of, test_of_case
from gatewright.sandbox import Completed

#: Files that a test framework of Python reads before its tests.
_SETTINGS = SETTING_FILES | {"conftest.py"}
#: Names that a proof lists.
_MOST = 100


def facts(framework: Framework, completed: Completed, report: RunnerReport, changed: Iterable[str] = ()) -> TestProof:
    """Return the facts of the run itself; ``changed`` are the files that differ from the baseline."""
    changed = list(changed)
    return TestProof(
        framework=framework.name,
        version=report.version,
        complete=report.complete and not contradicts(completed, report),
        counts=count_outcomes(report),
        failed=list_some(each for each, outcome in report.outcomes.items() if outcome == "failed"),
        # A command that starts the framework several times may run a test in each of them.
        duplicates=tuple(sorted(report.duplicates)[:_MOST]) if report.begun == 1 else (),
        patched=_patched_names(report, changed),
        shadowed=(
            *(f"{name} -> {place}" for name, place in sorted(report.origins.items())[:_MOST]),
            *_in_place(framework, changed),
        ),
    )


def _patched_names(report: RunnerReport, changed: Iterable[str]) -> tuple[str, ...]:
    """What of the runner was not its own, but for what a file does that the baseline has as it is."""
    mine = frozenset(changed)
    return tuple(f"{path}::{what}" for what, path in sorted(report.patched.items()) if not path or path in mine)[:_MOST]


def _in_place(framework: Framework, changed: Iterable[str]) -> tuple[str, ...]:
    """Return bytecode in the change: Python uses it instead of the source beside it, with any content."""
    if "python" not in framework.languages:
        return ()
    brought = sorted(path for path in changed if path.endswith((".pyc", ".pyo")))
    return tuple(f"{path} (bytecode that the change brings: leave it out)" for path in brought[:_MOST])


def count_outcomes(report: RunnerReport) -> TestCounts:
    """Count the reported tests by outcome."""
    count = Counter(report.outcomes.values())
    return TestCounts(passed=count["passed"], failed=count["failed"], skipped=count["skipped"])


def test_files(report: RunnerReport) -> frozenset[str]:
    """Return the files of the reported tests, and the files beside them that configured the run."""
    beside = (path for path in report.loaded if path.rpartition("/")[2] in _SETTINGS)
    return frozenset((*map(file_of, report.outcomes), *beside))


def with_rewritten(proof: TestProof, files: frozenset[str], edited: Iterable[str]) -> TestProof:
    """The same with those of its ``files`` that were ``edited``."""
    return replace(proof, rewritten=tuple(rewritten_of(files, edited, proof.framework)[:_MOST]))


def rewritten_of(files: Iterable[str], edited: Iterable[str], framework: str) -> list[str]:
    """Those of ``files`` that were ``edited``, or their bytecode was, which Python takes in their place."""
    paths = frozenset(edited)
    # That of pytest is its own: another that is made beside it, by a program that a test starts, decides nothing there.
    mark = "-pytest-" if framework == "pytest" else "."
    caches = [path for path in paths if path.endswith(".pyc") and "__pycache__/" in path and mark in path.rpartition("/")[2]]
    beginnings = [path.replace("__pycache__/", "") for path in caches]
    compiled = (file for file in files if any(path.startswith(file.removesuffix("py")) for path in beginnings))
    return sorted(paths.intersection(files).union(compiled))


async def with_untested(
    proof: TestProof, framework: Framework, report: RunnerReport, trees: tuple[TreeFiles, TreeFiles], altered: Sequence[str]
) -> TestProof:
    """Return the proof with what no test used of ``altered``, in the ``trees`` of candidate and baseline, or is unknown."""
    loaded = framework.reports_files and report.outcomes
    return replace(
        proof,
        untouched=tuple(path for path in loadable(altered) if path not in report.loaded)[:_MOST] if loaded else (),
        untested_packages=await untested_packages(framework, *trees, altered, report.outcomes),
        unmeasured=unmeasured_endings(framework, altered),
    )


def contradicts(completed: Completed, report: RunnerReport) -> bool:
    """Return whether the command succeeded although the framework reported otherwise, or collected tests that never ran."""
    return completed.exit_code == 0 and (any(report.ends) or not report.collected <= report.outcomes.keys())


def with_control(proof: TestProof, sentinel: Sentinel, completed: Completed, report: RunnerReport) -> TestProof:
    """Return the proof with the results of the two planted tests."""
    return replace(
        proof,
        control=TestControl(
            failing=sentinel.failing,
            passing=sentinel.passing,
            exit_code=completed.exit_code,
            failing_outcome=_outcome(report, sentinel.failing),
            passing_outcome=_outcome(report, sentinel.passing),
        ),
    )


def _outcome(report: RunnerReport, name: str) -> str:
    """Return the outcome of a planted test: all its cases must agree, except those that a fixture skips."""
    found = {outcome for each, outcome in report.outcomes.items() if each == name or each.startswith(f"{name}[")}
    found = found - {"skipped"} or found
    return found.pop() if len(found) == 1 else ""


def with_baseline(proof: TestProof, report: RunnerReport, before: Mapping[str, str], newly_skipped: Iterable[str]) -> TestProof:
    """The same with what became of the tests of the baseline."""
    now = report.outcomes.keys()
    lost = lost_tests(before, now)
    return replace(
        proof,
        collected_before=len(before),
        lost_count=len(lost),
        lost=list_some(lost),
        new_count=len(now - before.keys()),
        newly_skipped=list_some(newly_skipped),
    )


def lost_tests(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """The tests of ``before`` that are not in ``now``.

    A case of a parametrised test is called by its values: it is lost when its test has fewer cases than it had.
    """
    known, missing = frozenset(now), sorted(frozenset(before) - frozenset(now))
    cases_before, cases_now = (Counter(filter(None, map(test_of_case, ids))) for ids in (before, known))
    lost = []
    for each in missing:
        test = test_of_case(each)
        if not test:
            lost.append(each)
        elif cases_now[test] < cases_before[test]:
            lost.append(each)
            cases_now[test] += 1
    return lost


def list_some(names: Iterable[str]) -> tuple[str, ...]:
    """A hundred of them: one of each file before the second of any, so that few files are all named."""
    first: dict[str, str] = {}
    others = []
    for name in sorted(names):
        if file_of(name) in first:
            others.append(name)
        else:
            first[file_of(name)] = name
    return (*first.values(), *others)[:_MOST]
