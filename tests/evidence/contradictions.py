"""Stories that contradict themselves, told under a good signature: the events of an honest run with one thing changed.

The chain, the files, the manifest and both statements are made anew from them by the writer itself, with a real key: nothing
but the contradiction is wrong. ``stories.py`` says for each which code finds it, and the two places that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace as changed

from gatewright.clock import timestamp
from gatewright.contracts import Transition
from gatewright.contracts.records import Cause, OrchestratorEvent
from gatewright.contracts.reports import Evidence, GateName, MutationSample, TestCommand, Violation
from gatewright.contracts.vocabulary import AcceptanceTest, Budget, Usage
from gatewright.ledger.chain import link
from gatewright.run import events as e
from gatewright.run import states
from gatewright.run.state import GENESIS
from tests.evidence.recorded_runs import (
    MUTANTS,
    RecordedRun,
    make_aborted,
    make_fixed,
    make_success,
)

OTHER_TREE = "d" * 40
OTHER_COMMIT = "e" * 40
OTHER_RUN = "run-ffffffffffffffffffff"
OTHER_TESTS = (AcceptanceTest(name="unit", cmd="true", must_pass=True),)
VIOLATION = Violation(code="path_out_of_scope", rule="allowed_paths", detail="outside")


@dataclass(frozen=True)
class Told:
    """An event before it has its place in the chain."""

    payload: e.RunEvent
    record: OrchestratorEvent

    def given(self, **changes: Any) -> Told:
        return replace(self, record=changed(self.record, **changes))


Change = Callable[[list[Told]], Iterator[Told]]


class Story(NamedTuple):
    """``path`` and ``against`` are beginnings of the two places that the finding names."""

    make: Callable[[], RecordedRun]
    change: Change
    code: str
    path: str = ""
    against: str = ""


def replay_history(recorded: RecordedRun, change: Change) -> RecordedRun:
    """The same run with other events: linked anew, in one transition."""
    told = list(change([Told(e.event_of(record), record) for record in recorded.records]))
    records: list[OrchestratorEvent] = []
    head = GENESIS
    for seq, each in enumerate(told):
        event = e.LabelledEvent(each.payload, each.record.level, each.record.task_id, each.record.attempt, each.record.role)
        now = datetime.fromisoformat(each.record.ts)
        records += link([event], run_id=recorded.run_id, trace_id="ab" * 16, seq=seq, head=head, now=now)
        head = records[-1].hash
    cause = Cause(kind="told", message_id="told")
    transition = Transition(run_id=recorded.run_id, number=1, cause=cause, events=tuple(records), commands=())
    return replace(recorded, transitions=[transition])


def swap(kind: type[e.RunEvent], change: Callable[[Any], Any], number: int = -1) -> Change:
    """Change the payload of the ``number``-th event of a kind."""

    def told(story: list[Told]) -> Iterator[Told]:
        chosen = [each for each in story if isinstance(each.payload, kind)][number]
        for each in story:
            yield replace(each, payload=change(each.payload)) if each is chosen else each

    return told


def label(kind: type[e.RunEvent], **changes: Any) -> Change:
    """Change what the record of the last event of a kind says besides its payload."""

    def told(story: list[Told]) -> Iterator[Told]:
        chosen = [each for each in story if isinstance(each.payload, kind)][-1]
        for each in story:
            yield each.given(**changes) if each is chosen else each

    return told


def leave_out(which: Callable[[e.RunEvent], bool]) -> Change:
    def told(story: list[Told]) -> Iterator[Told]:
        yield from (each for each in story if not which(each.payload))

    return told


def both(*changes: Change) -> Change:
    def told(story: list[Told]) -> Iterator[Told]:
        for change in changes:
            story = list(change(story))
        yield from story

    return told


def report(kind: type[e.RunEvent], number: int = -1, **changes: Any) -> Change:
    """Change a role's or a gate's report."""
    return swap(kind, lambda payload: changed(payload, report=changed(payload.report, **changes)), number)


def gate(name: GateName, **changes: Any) -> Change:
    def told(story: list[Told]) -> Iterator[Told]:
        last = [each for each in story if is_gate(each.payload, name)][-1]
        for each in story:
            if each is last and isinstance(each.payload, e.GateJudged):
                yield replace(each, payload=e.GateJudged(report=changed(each.payload.report, **changes)))
            else:
                yield each

    return told


def is_gate(payload: e.RunEvent, name: GateName) -> bool:
    return isinstance(payload, e.GateJudged) and payload.report.gate == name


def refused(name: GateName, code: str = "path_out_of_scope") -> Change:
    return gate(name, verdict="FAIL", code=code, violations=(changed(VIOLATION, code=code),))


def without(name: GateName) -> Change:
    return leave_out(lambda payload: is_gate(payload, name))


def commands(change: Callable[[tuple[TestCommand, ...]], tuple[TestCommand, ...]]) -> Change:
    return swap(
        e.TestsReceived,
        lambda payload: changed(payload, report=changed(payload.report, commands=change(payload.report.commands))),
    )


def first_command(**changes: Any) -> Change:
    return commands(lambda given: (changed(given[0], **changes), *given[1:]))


def first_proof(**changes: Any) -> Change:
    """Change what the first command is said to have proved; its table stays."""

    def forged(given: tuple[TestCommand, ...]) -> tuple[TestCommand, ...]:
        first, *others = given
        assert first.proof is not None
        return changed(first, proof=changed(first.proof, **changes)), *others

    return commands(forged)


def contract(**changes: Any) -> Change:
    """Another contract from the pm than the request orders; the tasks under it stay."""
    return swap(e.ContractCompiled, lambda payload: e.ContractCompiled(contract=changed(payload.contract, **changes)))


def everywhere(**changes: Any) -> Change:
    """The same in the request, the contract, and every task: the order itself is another one."""

    def one(payload: Any) -> Any:
        match payload:
            case e.RunAccepted(request=request) if request is not None:
                return changed(payload, request=changed(request, **changes))
            case e.ContractCompiled(contract=given):
                return changed(payload, contract=changed(given, **changes))
            case e.TaskDispatched(contract=given) if given is not None:
                return changed(payload, contract=changed(given, **changes))
            case e.PlanAccepted(plan=plan):
                shards = tuple(changed(shard, **changes) for shard in plan.contracts)
                return changed(payload, plan=changed(plan, contracts=shards))
            case _:
                return payload

    def told(story: list[Told]) -> Iterator[Told]:
        yield from (replace(each, payload=one(each.payload)) for each in story)

    return told


def result(number: int = -1, **changes: Any) -> Change:
    return swap(e.TaskFinished, lambda payload: changed(payload, result=changed(payload.result, **changes)), number)


def plan(change: Callable[[Any], Any]) -> Change:
    return swap(e.PlanAccepted, lambda payload: e.PlanAccepted(plan=change(payload.plan)))


def first_shard(**changes: Any) -> Change:
    return plan(lambda given: changed(given, contracts=(changed(given.contracts[0], **changes), *given.contracts[1:])))


def task(role: str, **changes: Any) -> Change:
    """Another contract for a judge."""

    def told(story: list[Told]) -> Iterator[Told]:
        for each in story:
            given = each.payload
            if isinstance(given, e.TaskDispatched) and given.role == role and given.contract is not None:
                yield replace(each, payload=changed(given, contract=changed(given.contract, **changes)))
            else:
                yield each

    return told


def insert(after: type[e.RunEvent], *payloads: e.RunEvent) -> Change:
    def told(story: list[Told]) -> Iterator[Told]:
        last = [each for each in story if isinstance(each.payload, after)][-1]
        for each in story:
            yield each
            if each is last:
                yield from (Told(payload, changed(each.record, level="INFO")) for payload in payloads)

    return told


def later(kind: type[e.RunEvent], seconds: float) -> Change:
    """Everything from the last event of a kind on happens later, or earlier."""

    def told(story: list[Told]) -> Iterator[Told]:
        start = max(number for number, each in enumerate(story) if isinstance(each.payload, kind))
        for number, each in enumerate(story):
            moment = datetime.fromisoformat(each.record.ts) + timedelta(seconds=seconds if number >= start else 0)
            yield each.given(ts=timestamp(moment))

    return told


def names(recorded: RecordedRun, *paths: bytes) -> str:
    return recorded.store.put(b"".join(path + b"\0" for path in paths))


def listing(
    *paths: bytes, count: int | None = None, make: Callable[[], RecordedRun] = make_success
) -> Callable[[], RecordedRun]:
    """A run whose list of changed names is another one."""

    def made() -> RecordedRun:
        recorded = make()
        uri = names(recorded, *paths)
        how_many = len(paths) if count is None else count
        return replay_history(
            recorded, swap(e.CandidateComposed, lambda given: changed(given, names=uri, changed_files=how_many))
        )

    return made


def as_told(story: list[Told]) -> Iterator[Told]:
    """Nothing more is changed."""
    yield from story


def tests_refused() -> RecordedRun:
    """A run that failed because its tests did, and they passed."""
    recorded = make_success()
    steps = recorded.transitions[:-1]
    recorded = replace(recorded, transitions=steps)
    recorded = replay_history(recorded, refused("tests", "tests_failed"))
    recorded.end("FAILED", "tests_failed", "tests gate: outside")
    return recorded


def review_refused() -> RecordedRun:
    recorded = make_success()
    recorded = replace(recorded, transitions=recorded.transitions[:-3])
    review = f"{recorded.run_id}.review.a1"
    recorded.step(recorded.review(review), recorded.gate("reviewer", task_id=review, code="reviewer_wrong_tree"))
    recorded.end("FAILED", "reviewer_wrong_tree", "reviewer gate: refused")
    return recorded


def rounds(most: int) -> Callable[[], RecordedRun]:
    """A round of fixing under a contract that allows ``most`` retries."""

    def made() -> RecordedRun:
        recorded = make_fixed()
        allowed = recorded.request().timeout_retry
        assert allowed
        return replay_history(recorded, everywhere(timeout_retry=changed(allowed, max_retries=most)))

    return made


def spent(limit: Budget, usage: Usage) -> Callable[[], RecordedRun]:
    """A run with a budget of which more was used than there is."""

    def made() -> RecordedRun:
        recorded = replay_history(make_success(), everywhere(budget=limit))
        task_id = f"{recorded.run_id}.plan.w01"
        used = e.UsageReported(task_id=task_id, usage=usage)
        return replay_history(recorded, after_dispatch(task_id, used))

    return made


def after_dispatch(task_id: str, payload: e.RunEvent) -> Change:
    def told(story: list[Told]) -> Iterator[Told]:
        for each in story:
            yield each
            if isinstance(each.payload, e.TaskDispatched) and each.payload.task_id == task_id:
                yield Told(payload, each.record)

    return told


def to_end(status: states.Ending, code: str, message: str) -> Callable[[], RecordedRun]:
    """A run that ends while its workers work, with no event that says why."""

    def made() -> RecordedRun:
        recorded = make_aborted()
        recorded = replace(recorded, transitions=recorded.transitions[:-1])
        recorded.end(status, code, message)
        return recorded

    return made


def evidence(name: str, digest: str) -> tuple[Evidence, ...]:
    return (Evidence(name=name, digest=digest),)


def all_mutants(outcome: str) -> MutationSample:
    """The sample, as if every mutant had ended so."""
    return changed(MUTANTS, mutants=tuple(changed(each, outcome=outcome) for each in MUTANTS.mutants))
