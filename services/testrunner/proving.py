"""Proves that a test command works: the run itself, reported test by test, with a control and the baseline's tests beside it.

Those have workspaces of their own and run in parallel to the command; when it fails they are stopped. The results are facts:
``gatewright.rules.reports.proof`` judges them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from gatewright.contracts.reports import CallReplay, CheckControl, RedFirst, TestProof
from gatewright.contracts.vocabulary import MutationBounds
from gatewright.ecosystems.checkers import SourceChecker, checker_of
from gatewright.ecosystems.port import NO_FILES, Framework, Purpose, Sentinel, TreeFiles
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.records import RunnerReport, Table, read_table, write_table
from gatewright.ecosystems.registry import FRAMEWORKS, may_be_tests, recognise, why_unproven
from gatewright.errors import DeniedError
from gatewright.git.changes import FileChange
from gatewright.git.mirror_tree import list_tree
from gatewright.git.modes import FILE
from gatewright.sandbox import Completed, Sandbox
from gatewright.services.testrunner.audits import measure_audit
from gatewright.services.testrunner.baseline_tests import run_baseline_tests
from gatewright.services.testrunner.before import FailuresBefore, bound_time, has_failed
from gatewright.services.testrunner.check_control import run_check_control
from gatewright.services.testrunner.commands import AcceptanceCommand, CommandPlace
from gatewright.services.testrunner.comparison import facts, test_files, with_baseline, with_control, with_untested
from gatewright.services.testrunner.coverage import altered_files, measure_coverage
from gatewright.services.testrunner.hiding import hidden_by, missed_modules, new_names, new_twins
from gatewright.services.testrunner.instrumented import THE_COMMAND, AskedRun, Instrumented, build_earlier
from gatewright.services.testrunner.mutation.sampling import Sampler
from gatewright.services.testrunner.red_first import CandidateResult, RedFirstRuns
from gatewright.services.testrunner.replaying import compare_calls
from gatewright.services.testrunner.tables import Tables, key_of
from gatewright.workspace import Workspaces

#: The kind of table that has what files of tests took to load.
_TOOK: Final = "took"
_Control = tuple[Sentinel, Completed, RunnerReport] | None
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Proved:
    """A command that has ended, what shows that it tested something, and each test with its outcome (empty: none)."""

    completed: Completed
    proof: TestProof
    table: bytes = b""
    #: Where the tests that ran are, and what was imported to run them.
    files: frozenset[str] = frozenset()
    #: Loaded files of the candidate, if all tests reported an outcome.
    loaded: frozenset[str] = frozenset()


class Prover:
    """Runs commands in ``sandbox``; ``tables`` remembers the tests of trees."""

    def __init__(self, sandbox: Sandbox, workspaces: Workspaces, tables: Tables) -> None:
        self._sandbox = sandbox
        self._workspaces = workspaces
        self._tables = tables
        self._sampler = Sampler(workspaces)
        self._before = FailuresBefore(sandbox, workspaces)
        self._red_first = RedFirstRuns(workspaces)

    async def run(
        self,
        command: AcceptanceCommand,
        place: CommandPlace,
        progress: Callable[[], None],
        mutation: MutationBounds | None = None,
    ) -> Proved:
        """Run ``command`` in the workspace of ``place``. ``progress`` is called when a run has ended and others have not.

        ``mutation``: how many mutants of the change are tried; None: not one.

        Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
        """
        required = None if place.tests_base else command.test.coverage
        audit = None if place.tests_base else command.test.audit
        before = place.workspace.written(required.file) if required is not None else ()
        audited_before = place.workspace.written(audit.file) if audit is not None else ()
        proved = await self._prove_command(command, place, progress, mutation)
        if audit is not None and not (proved.completed.timed_out or proved.completed.stopped):
            progress()
            bounded = bound_time(place, proved.completed)
            found = await measure_audit(command.argv, bounded, audit, audited_before, self._sandbox, self._workspaces)
            proved = dataclasses.replace(proved, proof=replace(proved.proof, audit=found))
        if required is not None and not (proved.completed.exit_code or proved.completed.timed_out or proved.completed.stopped):
            languages = next((each.languages for each in FRAMEWORKS if each.name == proved.proof.framework), frozenset[str]())
            coverage = await measure_coverage(place, required, before, languages)
            proved = dataclasses.replace(proved, proof=replace(proved.proof, coverage=coverage))
        skipped = not command.test.must_pass or place.tests_base or proved.proof.shadowed
        if skipped or not has_failed(proved.completed):
            return proved
        progress()
        failed = [each for each, outcome in read_table(proved.table).items() if outcome == "failed"]
        proof = await self._before.add_baseline_result(
            proved.proof, command.argv, failed, bound_time(place.on_baseline, proved.completed)
        )
        return dataclasses.replace(proved, proof=proof)

    async def _prove_command(
        self, command: AcceptanceCommand, place: CommandPlace, progress: Callable[[], None], mutation: MutationBounds | None
    ) -> Proved:
        tree = await list_tree(place.candidate.mirror, place.candidate.tree) if may_be_tests(command.argv) else None
        framework = await self._framework(command, place, tree) if tree is not None else None
        if tree is None or framework is None:
            return await self._unproven(command, place, tree or NO_FILES, progress)
        subject = Instrumented(command.argv, framework, self._sandbox, place.prefix, place.limits, place.built)
        if not command.test.must_pass:
            completed, report = await subject.run(place.workspace, tree, THE_COMMAND)
            proof = replace(facts(framework, completed, report), unproven="the contract does not ask that it passes")
            return Proved(completed, proof, write_table(report.outcomes), test_files(report))
        sample = self._sampler.of(subject, place, tree, mutation) if mutation is not None else None
        async with _beside(sample.prepare() if sample is not None else _nothing()) as preparing:
            proved = await self._prove(subject, place, tree, progress)
            if sample is None or not _is_whole(proved):
                return proved
            tried = await sample.tried(preparing, proved.completed.duration_seconds, progress)
        return dataclasses.replace(proved, proof=replace(proved.proof, mutation=tried))

    async def _unproven(
        self, command: AcceptanceCommand, place: CommandPlace, tree: TreeFiles, progress: Callable[[], None]
    ) -> Proved:
        """Run a command that starts no known framework; for one that checks sources, whether it looks at the change."""
        checker = checker_of(command.argv) if command.test.must_pass else None
        async with _beside(self._check_control(checker, command.argv, place)) as controlled:
            completed = await self._sandbox.run(
                command.argv, workspace=place.workspace, prefix=place.prefix, limits=place.limits
            )
            if checker is not None:
                progress()
            check = await controlled if not has_failed(completed) else None
        words = await why_unproven(command.argv, tree)
        return Proved(completed, TestProof(framework="", unproven=words, check=check))

    async def _check_control(
        self, checker: SourceChecker | None, argv: tuple[str, ...], place: CommandPlace
    ) -> CheckControl | None:
        return await run_check_control(checker, argv, place, self._sandbox, self._workspaces) if checker is not None else None

    async def _framework(self, command: AcceptanceCommand, place: CommandPlace, tree: TreeFiles) -> Framework | None:
        """The framework that ``command`` starts on the candidate; else the one that it started on the baseline.

        A change that has the script of ``npm test`` start something else must not make its tests unknown: they are lost.
        """
        if (found := await recognise(command.argv, tree)) is not None:
            return found
        return await recognise(command.argv, await list_tree(place.candidate.mirror, place.candidate.baseline))

    async def _prove(self, subject: Instrumented, place: CommandPlace, tree: TreeFiles, progress: Callable[[], None]) -> Proved:
        async with (
            _beside(self._control(subject, place, tree)) as control,
            _beside(self._baseline(subject, place.on_baseline)) as baseline,
            _beside(run_baseline_tests(subject, place, tree, self._workspaces)) as baseline_tests,
            _beside(self._replay(subject, place, tree)) as replayed,
        ):
            completed, report = await subject.run(place.workspace, tree, THE_COMMAND)
            proof, table = (
                facts(subject.framework, completed, report, await _changed_files(place)),
                write_table(report.outcomes),
            )
            trees = tree, await list_tree(place.candidate.mirror, place.candidate.baseline)
            proof = await with_untested(proof, subject.framework, report, trees, await altered_files(place.candidate))
            proof = replace(proof, shadowed=(*proof.shadowed, *await _hidden_modules(subject, place, tree)))
            if completed.exit_code or completed.timed_out or completed.stopped:
                proof = replace(proof, shadowed=(*proof.shadowed, *await _missed_modules(place, tree, completed)))
                return Proved(completed, proof, table, test_files(report))
            progress()
            before = await baseline
            result = CandidateResult(completed, report, before)
            async with _beside(self._run_red_first(subject, place, tree, result)) as red_first:
                planted, on_candidate = await control, await baseline_tests
                proof = replace(proof, red_first=await red_first, replay=await replayed)
        if planted is None:
            proof = replace(proof, unproven="there is no place for a test that must fail")
        else:
            proof = with_control(proof, *planted)
        if before != {}:  # else the baseline has no tests
            proof = replace(proof, baseline_tests=on_candidate)
        if before is not None:
            newly = await self._newly_skipped(subject, place.on_baseline, report, before)
            proof = with_baseline(proof, report, before, newly)
        if proof.complete:
            await self._keep_table(self._outcome_key(subject, place, place.candidate.tree), report.outcomes, place)
            await self._keep_took(subject, place, place.candidate.tree, report)
        return Proved(completed, proof, table, test_files(report), frozenset(report.loaded) if proof.complete else frozenset())

    async def _replay(self, subject: Instrumented, place: CommandPlace, tree: TreeFiles) -> CallReplay | None:
        """Not in a merge queue: the run of each change has compared its calls."""
        return None if place.tests_base else await compare_calls(subject, place, tree, self._workspaces)

    async def _run_red_first(
        self, subject: Instrumented, place: CommandPlace, tree: TreeFiles, result: CandidateResult
    ) -> RedFirst | None:
        """Not in a merge queue: the run of each change has tried its tests."""
        return None if place.tests_base else await self._red_first.run(subject, place, tree, result)

    async def _control(self, subject: Instrumented, place: CommandPlace, tree: TreeFiles) -> _Control:
        """The command on the candidate with two planted tests; None where there is no place for them."""
        sentinel = await subject.framework.sentinel(subject.argv, tree, random.SystemRandom())
        if sentinel is None:
            return None
        candidate = place.candidate
        new = {path.encode(): content for path, content in sentinel.files.items() if path not in tree.paths}
        more = [FileChange(path.encode(), FILE, content) for path, content in sentinel.files.items() if path in tree.paths]
        # Files that are there already, in which tests are declared, come in as a tree of the control's own.
        shown = await candidate.mirror.write_tree(candidate.tree, more) if more else candidate.tree
        planted = {**place.provided, **new}
        async with self._workspaces.open(
            candidate.mirror, candidate.baseline, shown, planted=planted, compiled=place.compiled
        ) as workspace:
            only = (sentinel.failing, sentinel.passing)
            await build_earlier(place, workspace, subject.sandbox)
            took = await self._took(subject, place)
            run = await subject.run(workspace, tree, AskedRun(Purpose.CONTROL, only, tuple(sentinel.files), took=took))
        return sentinel, *run

    async def _baseline(self, subject: Instrumented, place: CommandPlace) -> dict[str, str] | None:
        """Return the tests of the baseline; None when they could not be reported."""
        key = self._outcome_key(subject, place, place.candidate.baseline_tree)
        known = await self._tables.find(key)
        if known is None:
            report = await self._on_baseline(subject, place, ())
            if report is None:
                return None
            known = {each: report.outcomes.get(each, "") for each in report.collected}
            await self._keep_table(key, known, place)
            await self._keep_took(subject, place, place.candidate.baseline_tree, report)
        return known

    async def _newly_skipped(
        self, subject: Instrumented, place: CommandPlace, report: RunnerReport, before: dict[str, str]
    ) -> list[str]:
        """The tests that are skipped now and ran on the baseline; those of which it is not known are run there."""
        skipped = {each for each, outcome in report.outcomes.items() if outcome == "skipped" and each in before}
        if unknown := sorted(each for each in skipped if not before[each]):
            again = await self._on_baseline(subject, place, tuple(unknown))
            if again is not None:
                before.update({each: outcome for each, outcome in again.outcomes.items() if each in before})
                await self._keep_table(self._outcome_key(subject, place, place.candidate.baseline_tree), before, place)
        return sorted(each for each in skipped if before[each] in {"passed", "failed"})

    async def _on_baseline(self, subject: Instrumented, place: CommandPlace, only: tuple[str, ...]) -> RunnerReport | None:
        candidate = place.candidate
        tree = await list_tree(candidate.mirror, candidate.baseline)
        if not await subject.framework.recognises(subject.argv, tree):
            return None
        async with self._workspaces.open(
            candidate.mirror, candidate.baseline, planted=place.provided, compiled=place.compiled
        ) as workspace:
            await build_earlier(place, workspace, subject.sandbox)
            subject = dataclasses.replace(subject, prefix=place.prefix, built=place.built)
            _, report = await subject.run(workspace, tree, AskedRun(Purpose.COLLECT, only))
        return report if report.complete else None

    async def _keep_table(self, key: str, table: Table, place: CommandPlace) -> None:
        await place.confirmed()
        await self._tables.keep(key, table)

    async def _took(self, subject: Instrumented, place: CommandPlace) -> dict[str, int]:
        """Return the load times of test files on the baseline in milliseconds, where reported."""
        kept = await self._tables.find(self._outcome_key(subject, place.on_baseline, place.candidate.baseline_tree, _TOOK))
        return {path: int(took) for path, took in (kept or {}).items()}

    async def _keep_took(self, subject: Instrumented, place: CommandPlace, tree: str, report: RunnerReport) -> None:
        if report.took:
            table = {path: str(took) for path, took in report.took.items()}
            await self._keep_table(self._outcome_key(subject, place, tree, _TOOK), table, place)

    def _outcome_key(self, subject: Instrumented, place: CommandPlace, tree: str, kind: str = "outcomes") -> str:
        return key_of(tree, subject.argv, place.environment, kind)


def _is_whole(proved: Proved) -> bool:
    """Return whether the command passed, as far as known here: otherwise a mutant shows nothing."""
    completed, proof = proved.completed, proved.proof
    ended = completed.exit_code == 0 and not completed.timed_out and not completed.stopped
    return ended and proof.complete and proof.counts is not None and proof.counts.passed > 0


async def _nothing() -> None:
    pass


async def _missed_modules(place: CommandPlace, tree: TreeFiles, completed: Completed) -> tuple[str, ...]:
    """Compiled modules that only an installed copy has, and that the command asked for."""
    if place.prefix is None:
        return ()
    built: list[str] = []
    with contextlib.suppress(DeniedError):
        built = [change.path.decode("utf-8", "replace") for change in await place.workspace.changes()]
    names = (await import_roots(tree)).names
    return await asyncio.to_thread(missed_modules, place.prefix.prefixes, names, (*tree.paths, *built), completed)


async def _hidden_modules(subject: Instrumented, place: CommandPlace, tree: TreeFiles) -> tuple[str, ...]:
    """Installed modules in whose place the change puts others."""
    if "python" not in subject.framework.languages:
        return ()
    before = await list_tree(place.candidate.mirror, place.candidate.baseline)
    names = await new_names(before, tree)
    return (*await asyncio.to_thread(hidden_by, names, place.prefix), *new_twins(before, tree))


async def _changed_files(place: CommandPlace) -> list[str]:
    """The files of the candidate that the baseline has not, or otherwise."""
    candidate = place.candidate
    changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
    return [change.path.decode("utf-8", "replace") for change in changes if change.status != "D"]


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, _T]) -> AsyncIterator[asyncio.Task[_T]]:
    """A task that has ended when the context is left: what it holds must not outlive it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # looked at, or it would be reported as lost
