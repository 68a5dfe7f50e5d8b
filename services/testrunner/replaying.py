"""Calls that the tests make of changed functions, made again in the test runner and outside of it.

1. The command runs on the candidate with a recorder, beside the command itself.
2. A program outside of the runner makes the recorded calls again. It has no file of the tests, no variable of a runner, no
   folder of ours, and another working directory.
3. If a result is not the recorded one, all calls are made twice where one test would run, and outside once more: in the usual
   directory, with the data of the tests and the variables that they set.

A call counts if its result in the runner is the recorded one, each time. It differs if both results outside are the same and
another one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import posixpath
import random
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from gatewright.contracts.reports import CallReplay, DifferingCall
from gatewright.ecosystems.port import PlainOrder, Purpose, RecordedCall, Replays, TreeFiles
from gatewright.ecosystems.records import RepeatedCall, RunnerReport, read_records
from gatewright.ecosystems.runner.names import is_runner_setting, is_test, is_test_data
from gatewright.errors import CommandRefusedError
from gatewright.git.changes import FileChange
from gatewright.git.modes import FILE
from gatewright.rules.reports.replays import MOST_LISTED
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented, build_earlier
from gatewright.services.testrunner.mutation.sampling import changed_sources
from gatewright.syntax_trees import language_of
from gatewright.workspace import Workspaces

#: Calls that are made again.
_MOST_CALLS: Final = 400
#: Seconds that making all calls again may take.
_LONGEST: Final = 60.0
#: The working directory outside.
_ELSEWHERE: Final = "/tmp"  # noqa: S108 - the sandbox's own
#: How a repeated call ended that has a result.
_ENDED: Final = frozenset({"returned", "raised"})
#: Metadata of a project, which can name plugins of runners but belongs to the installed project too.
_METADATA: Final = b".egg-info/entry_points.txt"
_EQUAL: Final = "equal to anything"
_COMPARED: Final = frozenset({"compared", "differs"})
#: Variables by which runners are known, and those of places.
_OF_RUNNERS: Final = (
    *("PYTEST", "NODE_TEST", "NODE_OPTIONS", "NODE_ENV", "JEST", "VITEST", "MOCHA", "npm_", "TOX", "COV", "GATEWRIGHT"),
    *("PATH", "PYTHONPATH", "PWD", "OLDPWD", "HOME", "MYPYPATH", "INIT_CWD"),
)

Results = Mapping[int, RepeatedCall]
_Function = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """The functions of the changed files, and calls of them to make again. ``trouble``: why there are none."""

    functions: int = 0
    called: int = 0
    unserialisable: int = 0
    calls: tuple[RecordedCall, ...] = ()
    interpreter: str = ""
    places: tuple[str, ...] = ()
    #: What the tests, or the command, set in their environment.
    variables: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""


async def compare_calls(
    subject: Instrumented, place: CommandPlace, tree: TreeFiles, workspaces: Workspaces
) -> CallReplay | None:
    """Record the calls of changed functions, make them again, and compare; None if there is nothing to record.

    ``tree`` is the candidate's. Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
    """
    replays = subject.framework.replays
    sources = await changed_sources(place.candidate, subject.framework.languages) if replays is not None else {}
    if replays is None or not sources:
        return None
    recording = await _record_calls(sources, replays, subject, place, tree, workspaces)
    facts = CallReplay(
        functions=recording.functions,
        called=recording.called,
        unserialisable=recording.unserialisable,
        unproven=recording.trouble,
    )
    if not recording.calls:
        return facts
    limits = dataclasses.replace(place.limits, wall_seconds=min(place.limits.wall_seconds, _LONGEST))
    subject = dataclasses.replace(subject, limits=limits)
    return await _Runs(workspaces, replays, recording, subject, place, tree).compare(facts)


async def _record_calls(
    sources: Mapping[str, str],
    replays: Replays,
    subject: Instrumented,
    place: CommandPlace,
    tree: TreeFiles,
    workspaces: Workspaces,
) -> Recording:
    candidate, additions = place.candidate, subject.additions_inside
    contents = await candidate.mirror.blobs(sources.values())
    changed = [
        FileChange(path.encode(), FILE, content)
        for path, object_id in sources.items()
        if additions and (content := replays.record_calls(path, contents[object_id], additions)) is not None
    ]
    shown = await candidate.mirror.write_tree(candidate.tree, changed) if changed else candidate.tree
    plain = not place.workspace.overlay
    async with workspaces.open(
        candidate.mirror, candidate.baseline, shown, plain=plain, planted=place.provided, compiled=place.compiled
    ) as workspace:
        await build_earlier(place, workspace, subject.sandbox)
        completed, report = await subject.run(workspace, tree, AskedRun(Purpose.ALL, recorded=tuple(sources)))
    if completed.exit_code or not report.complete:
        return Recording(trouble="the tests do not pass while their calls are recorded")
    return _recording_of(report)


@dataclass(frozen=True, slots=True)
class _Runs:
    """The repeated runs of one recording."""

    workspaces: Workspaces
    replays: Replays
    recording: Recording
    subject: Instrumented
    place: CommandPlace
    tree: TreeFiles

    async def compare(self, facts: CallReplay) -> CallReplay:
        calls = self.recording.calls
        outside = await self._outside(calls, _ELSEWHERE)
        if not outside:
            return replace(facts, unproven="no recorded call could be made again outside of the test runner")
        inside: tuple[Results, Results, Results] = ({}, {}, {})
        if not all(_is_as_recorded(call, outside.get(number)) for number, call in enumerate(calls)):
            inside = await asyncio.gather(self._in_runner(calls), self._in_runner(calls), self._outside(calls, ""))
        removed = frozenset(posixpath.basename(path) for path in self.tree.paths if _is_of_tests(path, data=False))
        return _with_verdicts(facts, calls, _Results(outside, *inside, removed))

    async def _in_runner(self, calls: Sequence[RecordedCall]) -> Results:
        place, candidate, subject = self.place, self.place.candidate, self.subject
        sentinel = await subject.framework.sentinel(subject.argv, self.tree, random.SystemRandom())
        planted = self.replays.plant_calls(sentinel, subject.additions_inside) if sentinel is not None else {}
        only = (sentinel.failing, sentinel.passing) if sentinel and planted else tuple({call.test: None for call in calls})
        shown = {**place.provided, **{path.encode(): content for path, content in planted.items()}}
        async with self.workspaces.open(
            candidate.mirror, candidate.baseline, candidate.tree, planted=shown, compiled=place.compiled
        ) as workspace:
            await build_earlier(place, workspace, subject.sandbox)
            asked = AskedRun(Purpose.REPLAY, only, tuple(planted), calls=tuple(calls))
            _, report = await subject.run(workspace, self.tree, asked)
        return report.replayed if not report.forged else {}

    async def _outside(self, calls: Sequence[RecordedCall], folder: str) -> Results:
        """Make ``calls`` in ``folder``, without a file of the tests; if it is empty, in the usual one, with their data and
        variables.
        """
        place, candidate, token = self.place, self.place.candidate, secrets.token_hex(16)
        without = [FileChange(path.encode(), None) for path in sorted(self.tree.paths) if _is_of_tests(path, data=bool(folder))]
        shown = await candidate.mirror.write_tree(candidate.tree, without) if without else candidate.tree
        name = f".{secrets.token_hex(6)}"
        inside = place.workspace.path_inside
        recording = self.recording
        order = PlainOrder(
            recording.interpreter,
            recording.places,
            tuple(calls),
            token,
            folder or inside,
            name,
            inside,
            {} if folder else recording.variables,
        )
        made = self.replays.plain_run(order)
        planted = {**place.provided, **{path.encode(): content for path, content in made.files.items()}}
        async with self.workspaces.open(
            candidate.mirror, candidate.baseline, shown, planted=planted, compiled=place.compiled
        ) as workspace:
            await build_earlier(place, workspace, self.subject.sandbox)
            try:
                completed = await self.subject.sandbox.run(
                    made.argv, workspace=workspace, prefix=place.prefix, limits=self.subject.limits
                )
            except CommandRefusedError:
                return {}
        report = read_records(filter(None, completed.stdout.split(b"\n")), token)
        return report.replayed if not report.forged else {}


def _is_of_tests(path: str, *, data: bool) -> bool:
    """Whether it is a source of tests, or what only configures their runner; with ``data``, or anything that they read."""
    name = path.encode()
    is_part = is_test(name) and (data or language_of(name) is not None)
    configures = is_runner_setting(name) and not name.endswith(_METADATA)
    return is_part or configures or (data and is_test_data(name))


def _recording_of(report: RunnerReport) -> Recording:
    functions: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for each in report.functions:  # a function may have several records
        sums = functions[each.path, each.name, each.line]
        sums[0] += each.calls
        sums[1] += each.opaque
    return Recording(
        functions=len(functions),
        called=sum(1 for calls, _ in functions.values() if calls),
        unserialisable=sum(opaque for _, opaque in functions.values()),
        calls=tuple(_choose(report.calls)),
        interpreter=report.interpreter,
        places=report.places,
        variables={name: text for name, text in report.variables.items() if not name.startswith(_OF_RUNNERS)},
    )


def _choose(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """At most so many: the first call of each function, then the second of each."""
    numbers: dict[_Function, int] = defaultdict(int)
    ranked: list[tuple[int, int, RecordedCall]] = []
    for call in {(_function_of(each), each.data): each for each in calls}.values():
        ranked.append((numbers[_function_of(call)], len(ranked), call))
        numbers[_function_of(call)] += 1
    chosen = sorted(ranked, key=lambda each: each[:2])[:_MOST_CALLS]
    return [call for _, _, call in sorted(chosen, key=lambda each: each[1])]


def _function_of(call: RecordedCall) -> _Function:
    return call.path, call.name, call.line


@dataclass(frozen=True, slots=True)
class _Results:
    outside: Results
    inside: Results
    again_inside: Results
    again_outside: Results
    #: Names of files that the program outside does not see.
    removed: frozenset[str]


def _is_as_recorded(call: RecordedCall, outside: RepeatedCall | None) -> bool:
    """Whether nothing more has to be asked. What a call printed was not recorded."""
    return outside is not None and outside.ended in _ENDED and bool(call.digest) and _result(outside) == (call.digest, "")


def _result(repeated: RepeatedCall) -> tuple[str, str]:
    return repeated.digest, repeated.printed


def _same(one: RepeatedCall, other: RepeatedCall | None) -> bool:
    return other is not None and (one.ended, one.digest, one.printed) == (other.ended, other.digest, other.printed)


def _verdict(number: int, call: RecordedCall, results: _Results) -> str:
    """One of: compared, differs, unrepeatable, fails, by_surroundings."""
    inside, outside = results.inside.get(number), results.outside.get(number)
    if _is_as_recorded(call, outside):
        return "compared"
    if inside is None or outside is None or inside.ended not in {*_ENDED, _EQUAL}:
        return "unrepeatable"
    if _EQUAL in (inside.ended, outside.ended):
        return "differs"
    if call.digest and inside.digest != call.digest:
        return "unrepeatable"
    if _same(inside, outside):
        return "compared"
    return _verdict_of_repeated(number, inside, outside, results)


def _verdict_of_repeated(number: int, inside: RepeatedCall, outside: RepeatedCall, results: _Results) -> str:
    again_inside, again_outside = results.again_inside.get(number), results.again_outside.get(number)
    if again_inside is None or again_outside is None or not _same(inside, again_inside):
        return "unrepeatable"
    if outside.ended not in _ENDED and outside.ended != "unimported":
        return "unrepeatable"
    if _same(inside, again_outside):
        return "by_surroundings"
    if outside.ended != "returned" and not any(name in outside.text for name in results.removed):
        return "fails"  # a set-up that only the tests make is missing
    return "differs" if _same(outside, again_outside) or outside.ended != "returned" else "unrepeatable"


def _with_verdicts(facts: CallReplay, calls: Sequence[RecordedCall], results: _Results) -> CallReplay:
    verdicts = [_verdict(number, call, results) for number, call in enumerate(calls)]
    compared = {_function_of(call) for call, verdict in zip(calls, verdicts, strict=True) if verdict in _COMPARED}
    differing: dict[_Function, DifferingCall] = {}
    for number, (call, verdict) in enumerate(zip(calls, verdicts, strict=True)):
        if verdict == "differs":
            differing.setdefault(_function_of(call), _differing(call, results.inside[number], results.outside[number]))
    return replace(
        facts,
        replayed=len(compared),
        calls=sum(verdict in _COMPARED for verdict in verdicts),
        differ_count=len(differing),
        differ=tuple(differing.values())[:MOST_LISTED],
        unrepeatable=verdicts.count("unrepeatable"),
        failed=verdicts.count("fails"),
        by_surroundings=verdicts.count("by_surroundings"),
    )


def _differing(call: RecordedCall, inside: RepeatedCall, outside: RepeatedCall) -> DifferingCall:
    equal = _EQUAL in {inside.ended, outside.ended}
    return DifferingCall(
        path=call.path,
        line=max(call.line, 1),
        function=call.name.replace(":", "."),
        arguments=call.arguments,
        under_test=_in_words(inside),
        in_production="its == accepts every value" if equal else _in_words(outside),
    )


def _in_words(result: RepeatedCall) -> str:
    words = {"returned": "returns", "raised": "raises", "unimported": "cannot be imported:", _EQUAL: "returns"}
    return f"{words.get(result.ended, result.ended)} {result.text}"
