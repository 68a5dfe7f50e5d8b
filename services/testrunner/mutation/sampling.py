"""Tries mutants of a change against its tests, each in an overlay of its own, for as long as the contract gives it.

The mutants are drawn, and the tests that run their lines are found out, while the command itself runs. What comes out are
facts: ``gatewright.rules.reports.mutation`` judges them. Nothing of a mutant lies in a repository, a mirror or a table of
tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import Mutant, MutationSample
from gatewright.contracts.vocabulary import MutationBounds
from gatewright.ecosystems.packages import is_apart
from gatewright.ecosystems.port import Purpose, TreeFiles
from gatewright.ecosystems.records import RunnerReport
from gatewright.ecosystems.runner.names import is_runner_setting, is_test
from gatewright.errors import GatewrightError, PatchError
from gatewright.git.modes import REGULAR
from gatewright.sandbox import Completed
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented, build_earlier
from gatewright.services.testrunner.mutation.drawing import FUNCTION, DrawingRequest, DrawingResult, Drawn, answer_in
from gatewright.services.testrunner.mutation.grammars import GRAMMARS
from gatewright.syntax_trees import MOST_BYTES, language_of
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces

#: Seconds that reading and drawing may take.
_DRAWING: Final = 20.0
#: A mutant that takes so many times as long as all tests without it, and some seconds more, hangs.
_TIMES: Final = 3
_MORE: Final = 2.0
#: Of the seconds that the run's own budget has left, what may be spent here.
_OF_WHAT_IS_LEFT: Final = 0.5
#: Of the time, what may be spent on waiting to know which tests run which lines.
_FOR_TOUCHED: Final = 0.5
_ALONE: Final = "the tests do not pass in a workspace of their own"

_Outcome = Literal["killed", "timed_out", "survived", "invalid"]


def seed_of(baseline_tree: str, tree: str) -> str:
    """What the draw follows from: the change alone, so that the same change has the same mutants wherever it is tested."""
    return hashlib.sha256(f"{baseline_tree} {tree}".encode()).hexdigest()


class Sampler:
    """Draws and tries the mutants of candidates."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces
        self._judge = BoundedJudge(FUNCTION, ProcessBounds(_DRAWING))

    def of(self, subject: Instrumented, place: CommandPlace, tree: TreeFiles, bounds: MutationBounds) -> CandidateSample:
        """The sample of one command on one candidate; ``prepare`` it first."""
        return CandidateSample(self._workspaces, self._judge, subject, place, tree, bounds)


class CandidateSample:
    """The mutants of one candidate, tried against what one command tests."""

    def __init__(
        self,
        workspaces: Workspaces,
        judge: BoundedJudge,
        subject: Instrumented,
        place: CommandPlace,
        tree: TreeFiles,
        bounds: MutationBounds,
    ) -> None:
        self._workspaces = workspaces
        self._judge = judge
        self._subject = subject
        self._place = place
        self._tree = tree
        self._bounds = bounds
        self._seed = seed_of(place.candidate.baseline_tree, place.candidate.tree)
        self._contents: dict[str, bytes] = {}
        self._answer: DrawingResult | None = None
        self._trouble = ""
        self._traced: RunnerReport | None = None
        self._tried: dict[int, Mutant] = {}
        #: Whether the tests have been seen to pass in a workspace like those of the mutants.
        self._passes = False
        self._end = 0.0
        self._longest = 0.0

    async def prepare(self) -> None:
        """Draw, and find out which tests run the drawn lines.

        Raises GitError, SandboxError, ConfigurationError, DeniedError.
        """
        candidate = self._place.candidate
        contents = self._contents = await mutable_files(candidate, self._subject.framework.languages)
        if not contents:
            self._answer = DrawingResult(0, ())
            return
        try:
            patch = await candidate.mirror.diff(candidate.baseline_tree, candidate.tree)
        except PatchError as error:
            self._trouble = f"the change is too large to be mutated: {error.message}"
            return
        question = DrawingRequest(patch, contents, self._seed, self._bounds.most_mutants)
        try:
            answer = answer_in(await self._judge.ask(msgspec.msgpack.encode(question)))
        except GatewrightError as error:  # the child gave no answer: the tests themselves have not failed
            self._trouble = f"the mutants could not be drawn: {error.message}"
            return
        self._answer = answer
        if answer.drawn and self._subject.framework.reports_files:
            await self._trace(answer.drawn)

    async def _trace(self, drawn: Sequence[Drawn]) -> None:
        lines: dict[str, list[int]] = {}
        for each in drawn:
            lines.setdefault(each.path, []).append(each.line)
        place = self._place
        candidate = place.candidate
        async with self._workspaces.open(
            candidate.mirror,
            candidate.baseline,
            candidate.tree,
            plain=not place.workspace.overlay,
            planted=place.provided,
            compiled=place.compiled,
        ) as workspace:
            await build_earlier(place, workspace, self._subject.sandbox)
            completed, report = await self._subject.run(workspace, self._tree, AskedRun(Purpose.ALL, lines=lines))
        if report.complete and report.outcomes and "failed" not in report.outcomes.values():
            self._traced, self._passes = report, True
        elif completed.exit_code:
            self._trouble = _ALONE

    async def tried(self, preparing: asyncio.Task[None], seconds: float, progress: Callable[[], None]) -> MutationSample:
        """Try the mutants.

        1. Those whose line tests run, by these tests.
        2. The others, by all tests.
        3. Survivors of some tests, by all of them.

        Args:
            preparing: the preparation in progress.
            seconds: duration of the command.
            progress: called after each mutant.
        """
        begun = time.monotonic()
        allowed = max(self._bounds.time_share * seconds, self._bounds.least_seconds)
        if self._place.until is not None:
            # Never at the cost of the run: landing wants some of its time, too.
            allowed = min(allowed, max(0.0, (self._place.until - begun) * _OF_WHAT_IS_LEFT))
        self._end, self._longest = begun + allowed, _TIMES * seconds + _MORE
        await asyncio.wait((preparing,), timeout=allowed * _FOR_TOUCHED)
        if preparing.done():
            preparing.result()
        out_of_time = False
        if self._answer is None:
            self._trouble = self._trouble or "they were not drawn within the time"
        elif not self._trouble:
            out_of_time = not await self._try_all(self._answer.drawn, progress)
        mutants = tuple(self._tried[number] for number in sorted(self._tried))
        if mutants and not self._passes and all(each.outcome != "survived" for each in mutants) and not self._trouble:
            self._trouble = "no mutant survived, and the time was over before the tests were seen to pass without one"
        return MutationSample(
            seed=self._seed,
            possible=self._answer.possible if self._answer is not None else 0,
            tried=len(mutants),
            mutants=mutants,
            seconds=round(time.monotonic() - begun, 3),
            out_of_time=out_of_time,
            unproven=self._trouble,
        )

    async def _try_all(self, drawn: Sequence[Drawn], progress: Callable[[], None]) -> bool:
        """False when the time was over first."""
        by_all = []
        for number, each in enumerate(drawn):  # 1
            only = self._tests_of(each)
            if not only:
                by_all.append(number)
            elif not await self._try(number, each, only):
                return False
            progress()
        for number in by_all:  # 2
            if not await self._try(number, drawn[number], ()):
                return False
            progress()
            if not await self._seen_to_pass():
                return not self._trouble and time.monotonic() < self._end
        for number, mutant in list(self._tried.items()):  # 3
            if mutant.outcome == "survived" and mutant.tests is not None:
                await self._try(number, drawn[number], ())
                progress()
        return True

    def _tests_of(self, drawn: Drawn) -> tuple[str, ...]:
        """The tests that run the line; none where that is not known, or it is run when tests are loaded."""
        if self._traced is None:
            return ()
        touching = self._traced.touched.get((drawn.path, drawn.line), set())
        return () if "" in touching else tuple(sorted(touching))

    async def _try(self, number: int, drawn: Drawn, only: tuple[str, ...]) -> bool:
        """Return False when it did not end in time: then nothing is known."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        outcome = await self._outcome(drawn, only, min(left, self._longest))
        if outcome == "timed_out" and left < self._longest:
            return False
        known = self._tried.get(number)
        if known is not None and outcome not in {"killed", "timed_out"}:  # by all tests, after some
            return True
        self._passes = self._passes or outcome == "survived"
        self._tried[number] = Mutant(
            path=drawn.path,
            line=drawn.line,
            column=drawn.column,
            before=drawn.before,
            after=drawn.after,
            outcome=outcome,
            tests=len(only) or None,
        )
        return True

    async def _seen_to_pass(self) -> bool:
        """Whether the tests pass without a mutant where mutants are tried; asked when some were killed, and none survived."""
        if self._passes or all(each.outcome == "invalid" for each in self._tried.values()):
            return True
        left = self._end - time.monotonic()
        outcome = await self._outcome(None, (), min(left, self._longest)) if left > 0 else "timed_out"
        self._passes = outcome == "survived"
        if outcome != "survived" and (outcome != "timed_out" or left >= self._longest):
            self._trouble = _ALONE
        return self._passes

    async def _outcome(self, drawn: Drawn | None, only: tuple[str, ...], seconds: float) -> _Outcome:
        place = self._place
        candidate = place.candidate
        async with self._workspaces.open(
            candidate.mirror,
            candidate.baseline,
            candidate.tree,
            plain=not place.workspace.overlay,
            planted=place.provided,
            replaced={drawn.path.encode(): drawn.applied(self._contents[drawn.path])} if drawn is not None else None,
            compiled=place.compiled,
        ) as workspace:
            limits = dataclasses.replace(place.limits, wall_seconds=seconds)
            subject = dataclasses.replace(self._subject, limits=limits)
            if not await build_earlier(place, workspace, subject.sandbox):
                return "invalid"  # programs that were not built fail as tests, and no test has looked at anything
            completed, report = await subject.run_until_failure(workspace, self._tree, only=only)
        return outcome_of(completed, report, only)


def outcome_of(completed: Completed | None, report: RunnerReport, only: Sequence[str]) -> _Outcome:
    """Return the result of a run with a mutant. ``completed`` is None when it was ended because a test had failed.

    Killed: a test failed, or the process ended before its tests did. Survived: all of them passed. Anything else (it cannot be
    compiled or imported, no test ran, a check beside the tests failed) is no result.
    """
    if completed is None or "failed" in report.outcomes.values():
        return "killed"
    if completed.timed_out or completed.stopped == "time":
        return "timed_out"
    if not report.outcomes:
        return "invalid"
    if completed.stopped or (report.begun > len(report.ends) and completed.exit_code):
        return "killed"
    if only:
        whole = report.complete and set(only) <= report.outcomes.keys()
    else:
        whole = report.complete and completed.exit_code == 0 and report.collected <= report.outcomes.keys()
    return "survived" if whole else "invalid"


# Which files of a change are mutated: sources in a language that the tests are about; no tests, settings or documents.
#: Files, and bytes of all of them; what is beyond is not mutated.
_MOST_FILES: Final = 500
_MOST_IN_ALL: Final = 16 * 1024 * 1024


async def changed_sources(candidate: RebuiltCandidate, tested: frozenset[str]) -> dict[str, str]:
    """The object ids of changed sources in the languages ``tested``, by path; of all languages if empty. Raises GitError."""
    languages = tested or frozenset(GRAMMARS)
    wanted = {}
    for change in await candidate.mirror.changes(candidate.baseline_tree, candidate.tree):
        if change.new_mode in REGULAR and language_of(change.path) in languages and _is_source(change.path):
            with contextlib.suppress(UnicodeDecodeError):
                wanted[change.path.decode()] = change.new_id
    return wanted


async def mutable_files(candidate: RebuiltCandidate, languages: frozenset[str]) -> dict[str, bytes]:
    """Contents of the changed files that may be mutated, by path. Raises GitError."""
    wanted = await changed_sources(candidate, languages)
    sizes = await candidate.mirror.sizes(wanted.values())
    chosen: dict[str, str] = {}
    total = 0
    for path, object_id in sorted(wanted.items()):
        size = sizes.get(object_id, MOST_BYTES + 1)
        if size <= MOST_BYTES and total + size <= _MOST_IN_ALL and len(chosen) < _MOST_FILES:
            chosen[path] = object_id
            total += size
    contents = await candidate.mirror.blobs(chosen.values())
    return {path: contents[object_id] for path, object_id in chosen.items()}


def _is_source(path: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    if is_test(path) or is_runner_setting(path) or is_apart(path.decode("utf-8", "replace")):
        return False
    return name not in {b"setup.py", b"conf.py"} and not name.endswith(b".pyi")
