"""Re-execution (specification 3, replay): the same order on the same baseline, repeated, and compared with the first run.

The bundle provides the input of an executor: its command, or the recorded reply or patch. The bundle's cassettes answer
model calls; no model is called. The second run lands nowhere. Pure: it executes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from gatewright.agents.admission_record import AdmittedAgent, admitted_agent
from gatewright.app.replay.recorded_calls import asked_tasks, decisions_of_run, differing_requests, requests_of, why_not_played
from gatewright.artifacts import stored_digest
from gatewright.contracts import ReexecReport, RunRequest, TaskContract, TestReport
from gatewright.contracts.reports import Difference, TestCommand
from gatewright.contracts.vocabulary import Artifact, Repository
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.verification.findings import PRECEDENCE
from gatewright.evidence.verification.reading import MAX_PATCH_BYTES, Reading, read
from gatewright.evidence.verification.verify import run_steps
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.order_artifacts.canonical_memory import without_memory
from gatewright.run.state import Run

#: A command that takes up to twice its time, or a second more, has taken the same time.
_SLACK_SECONDS = 1.0

_REMEMBERED = "its models received summaries of earlier runs, and a repetition would send others"
_ANSWERED = "its models received people's answers, and a repetition would send none"


class RecordedRun(NamedTuple):
    """The comparable facts of two runs with model calls: ``requests`` by task, ``decisions`` in order.

    ``roles`` requested documents; ``agents`` did the work.
    """

    requests: Mapping[str, tuple[str, ...]]
    decisions: Mapping[str, Any]
    roles: tuple[str, ...] = ()
    agents: tuple[AdmittedAgent, ...] = ()


class ReexecutionOrder(NamedTuple):
    """The order to submit again: ``attachments`` are the bytes of its artifacts, in order.

    ``recorded``: the first run's model calls to replay; None without any.
    """

    document: RunRequest | TaskContract
    attachments: tuple[tuple[Artifact, bytes], ...]
    recorded: RecordedRun | None = None

    @property
    def url(self) -> str:
        """The repository that it is to be carried out on."""
        return self.document.repository.url if self.document.repository is not None else ""

    def attached(self, artifacts: Sequence[Artifact]) -> RunRequest | TaskContract:
        """The document with its artifacts where they are stored now."""
        if isinstance(self.document, RunRequest):
            return replace(self.document, artifacts=tuple(artifacts))
        return replace(self.document, inputs=replace(self.document.inputs, artifacts=tuple(artifacts)))


def read_order(
    bundle: Path, trusted: Sequence[PublicKey], repository: str | None = None, *, plays: bool = True
) -> tuple[Run, ReexecutionOrder]:
    """Return the run of a verified bundle, and its order to submit again.

    Args:
        bundle: the folder.
        trusted: the accepted signing keys.
        repository: its present address.
        plays: whether recorded calls can be replayed; else consultations are skipped if the change needs none.

    Raises:
        VerificationError: ``bundle_not_verified``: a forged order is not executed.
        MalformedError: ``not_reexecutable`` (the run was aborted, had no baseline, or used an agent or a model without
            recorded calls), ``artifact_missing``.
    """
    reading, _, _ = run_steps(bundle, trusted)
    run = reading.run
    if reading.findings.found or run is None:
        worst = min(reading.findings.found, key=lambda finding: PRECEDENCE.index(finding.fault), default=None)
        words = f"{worst.path or bundle}: {worst.message}" if worst else "there are no events"
        raise VerificationError(f"the bundle does not verify, so it is not run again: {words}", code="bundle_not_verified")
    if run.status == "ABORTED":
        raise MalformedError(f"{run.run_id} was aborted: there is no result to compare with", code="not_reexecutable")
    document = run.request or run.contract
    if document is None or not run.accepted.baseline_commit:
        raise MalformedError(f"{run.run_id} was refused before its baseline was known", code="not_reexecutable")
    must = document.executor is not None and EXECUTOR_KINDS[document.executor.kind].asked_anew
    given = document.artifacts if isinstance(document, RunRequest) else document.inputs.artifacts
    kept = without_memory(given)
    answered = any(asked.answers for asked in run.approvals.values())
    unrepeatable = _REMEMBERED if len(kept) != len(given) else _ANSWERED if answered else ""
    recorded = _recorded_run(reading, must=must, unrepeatable=unrepeatable) if plays or must else None
    again = _again(document, run, repository, asks="pm" in recorded.roles if recorded is not None else False)
    return run, ReexecutionOrder(again, tuple((item, _read_artifact(reading, item)) for item in kept), recorded)


def recorded_run(history: RunHistory, get: Callable[[Artifact], bytes]) -> RecordedRun:
    """Return the run's requests and decisions; ``get`` returns the bytes of its artifacts. Raises MalformedError, as ``get``
    does."""
    tasks = asked_tasks(history)
    return RecordedRun(
        requests={task.place: requests_of(get(task.calls)) for task in tasks},
        decisions=decisions_of_run(history),
        roles=tuple(dict.fromkeys(task.role for task in tasks if task.role)),
        agents=tuple(dict.fromkeys(admitted_agent(get(task.admission)) for task in tasks if task.admission is not None)),
    )


def _recorded_run(reading: Reading, *, must: bool, unrepeatable: str) -> RecordedRun | None:
    """Return the recorded run; None without recorded calls, or with some that cannot be replayed, unless they ``must`` be.

    ``unrepeatable``: why its models' input cannot be repeated in the same words; empty if it can.
    """
    history = reading.history
    tasks = asked_tasks(history) if history is not None else ()
    if history is None or not tasks:
        return None
    get = partial(_read_artifact, reading)
    if why := unrepeatable or why_not_played(tasks, get):
        if must:
            raise MalformedError(f"{history.run.run_id} cannot be done again: {why}", code="not_reexecutable")
        return None
    return recorded_run(history, get)


def compare(first: Run, second: Run, when: str, recorded: tuple[RecordedRun, RecordedRun] | None = None) -> ReexecReport:
    """Compare what must be equal (outcome, patch, tests) and what should be (texts, outputs, versions). ``when``: RFC 3339.

    ``recorded``: of both runs, if the second has replayed the first one's model calls. Requests and decisions must then be
    equal; the order of the requests of one task should be.
    """
    hard, soft = tuple(_hard(first, second)), tuple(_soft(first, second))
    if recorded is not None:
        before, after = recorded
        asked = tuple(differing_requests(before.requests, after.requests))
        hard += tuple(each for each in asked if not each.key.endswith(".order"))
        soft += tuple(each for each in asked if each.key.endswith(".order"))
        for name in sorted({*before.decisions, *after.decisions}):
            hard += tuple(_differ(f"decisions.{name}", before.decisions.get(name), after.decisions.get(name)))
    return ReexecReport(
        run_id=first.run_id,
        status="fail" if hard else "pass",
        reexec_ts=when,
        hard_equal_pass=not hard,
        soft_equal_pass=not soft,
        hard_diffs=hard,
        soft_diffs=soft,
        errors=(),
    )


def _again(document: RunRequest | TaskContract, run: Run, repository: str | None, *, asks: bool) -> RunRequest | TaskContract:
    """Return the order for a repetition. ``asks``: the pm's model is called again, from the recording."""
    place = document.repository or Repository(url=run.accepted.repository_url)
    nowhere = replace(place, url=repository or place.url, landing="none")
    commit = run.accepted.baseline_commit
    if isinstance(document, RunRequest):
        # Tests that a model proposed are taken from the contract if it is not called again.
        proposed = run.contract.acceptance_tests if run.contract is not None and not asks else ()
        tests = document.acceptance_tests or proposed
        return replace(document, repository=nowhere, baseline_ref=commit, idempotency_key=None, acceptance_tests=tests)
    return replace(document, repository=nowhere, rollback=replace(document.rollback, baseline_ref=commit))


def _read_artifact(reading: Reading, artifact: Artifact) -> bytes:
    digest = stored_digest(artifact.uri)
    path = next((path for path, record in reading.listed.items() if record.sha256 == digest), None)
    if path is None:
        withheld = any(artifact.uri in note for note in reading.notes)
        why = ": it was withheld, because it holds what looks like a secret" if withheld else ""
        raise MalformedError(f"the bundle does not hold the artifact {artifact.name!r}{why}", code="artifact_missing")
    try:
        _, data = read(reading.root, path, keep=MAX_PATCH_BYTES)
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror or error}", code="artifact_missing") from error
    if data is None:
        raise MalformedError(f"{path} is too large to be given again", code="artifact_missing")
    return data


def _hard(first: Run, second: Run) -> Iterator[Difference]:
    yield from _differ("status", first.status, second.status)
    yield from _differ("failure.code", _code(first), _code(second))
    yield from _differ("candidate.tree", _tree(first), _tree(second))
    yield from _differ("patch.diff", _patch(first), _patch(second))
    yield from _differ("attempts", first.attempt, second.attempt)
    yield from _differ("tests", _test_commands(first.tests), _test_commands(second.tests))


def _soft(first: Run, second: Run) -> Iterator[Difference]:
    yield from _differ("failure.message", _message(first), _message(second))
    yield from _differ("policy_sha256", first.accepted.policy_sha256, second.accepted.policy_sha256)
    names = sorted({*first.accepted.versions, *second.accepted.versions})
    for name in names:
        yield from _differ(f"versions.{name}", first.accepted.versions.get(name), second.accepted.versions.get(name))
    yield from _differ("review.summary", _review(first), _review(second))
    commands = zip(first.tests.commands if first.tests else (), second.tests.commands if second.tests else (), strict=False)
    for number, (before, after) in enumerate(commands, 1):
        yield from _differ(f"tests.{number}.stdout", before.stdout, after.stdout)
        yield from _differ(f"tests.{number}.stderr", before.stderr, after.stderr)
        yield from _differ(f"tests.{number}.mutants", *_mutants(before, after))
        if abs(before.duration_sec - after.duration_sec) > max(_SLACK_SECONDS, before.duration_sec):
            yield Difference(key=f"tests.{number}.duration_sec", expected=before.duration_sec, actual=after.duration_sec)


def _differ(key: str, expected: Any, actual: Any) -> Iterator[Difference]:
    if expected != actual:
        yield Difference(key=key, expected=expected, actual=actual)


def _code(run: Run) -> str | None:
    return run.failure.code if run.failure else None


def _message(run: Run) -> str | None:
    return run.failure.message if run.failure else None


def _tree(run: Run) -> str | None:
    return run.candidate.tree if run.candidate else None


def _patch(run: Run) -> str | None:
    return run.candidate.patch if run.candidate else None


def _review(run: Run) -> str | None:
    return run.review.summary if run.review else None


def _mutants(before: TestCommand, after: TestCommand) -> tuple[dict[str, str], dict[str, str]]:
    """Return the outcomes of the mutants that both runs tried: their number depends on the available time."""
    first, second = (
        {f"{each.path}:{each.line}:{each.column} {each.after}": each.outcome for each in command.proof.mutation.mutants}
        if command.proof is not None and command.proof.mutation is not None
        else {}
        for command in (before, after)
    )
    both = first.keys() & second.keys()
    return {name: first[name] for name in sorted(both)}, {name: second[name] for name in sorted(both)}


def _test_commands(report: TestReport | None) -> list[dict[str, Any]] | None:
    """Return the commands and how they ended; None if none ran."""
    if report is None:
        return None
    return [
        {
            "name": command.name,
            "argv": list(command.cmd_argv),
            "exit_code": command.exit_code,
            "timed_out": command.timed_out,
        }
        for command in report.commands
    ]
