"""The model calls of a run's tasks, as its events name them: records of the calls, cassette, agent. Pure.

Two runs of one order are compared by the digests of their requests. This module also explains why calls cannot be replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from gatewright.agents.admission_record import ADMISSION
from gatewright.contracts.reports import Difference
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.evidence.projection.history import RunHistory
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.models.cassettes import Cassette, task_place
from gatewright.models.records import CALLS, CALLS_PART, CASSETTE, CallRecord
from gatewright.structured.recording import CASSETTE_PART

_Kind = TypeVar("_Kind")

#: The events of an agent's conversation, among the artifacts of its task (``gatewright.executor_kinds``).
_TALK: Final = "codex_events"
#: Reasons why a cassette has no calls.
_LEFT_OUT: Mapping[str, str] = {
    "texts_not_kept": "the operator's policy kept no texts (`keep_texts` of models.json)",
    "too_large": "there were more bytes than a cassette holds",
}


class AskedTask(NamedTuple):
    """A task that called models. ``place`` is its name in every run of the order; ``role`` asks for documents, or is empty.

    ``talk``: the events of an agent's conversation.
    """

    place: str
    role: str
    calls: Artifact
    cassette: Artifact | None
    admission: Artifact | None
    talk: Artifact | None = None


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """The relevant part of a conversation's event: whether a request was answered, how, and by whom."""

    event: str = ""
    answer: str = ""
    by: str = ""


def asked_tasks(history: RunHistory) -> tuple[AskedTask, ...]:
    """The tasks of a run that called models, in the order of their names."""
    run_id = history.run.run_id
    found = []
    for task_id, result in history.results.items():
        by_name = {each.name: each for each in result.artifacts}
        if calls := by_name.get(CALLS):
            place, kept = task_place(run_id, task_id), map(by_name.get, (CASSETTE, ADMISSION, _TALK))
            found.append(AskedTask(place, "", calls, *kept))
    for task_id, asked in history.consultations():
        by_name = {each.name: each for each in asked.artifacts}
        if calls := by_name.get(CALLS_PART):
            place = task_place(run_id, task_id)
            found.append(AskedTask(place, _role(place), calls, by_name.get(CASSETTE_PART), None))
    return tuple(sorted(found, key=lambda task: task.place))


def why_not_played(tasks: Iterable[AskedTask], get: Callable[[Artifact], bytes]) -> str:
    """Why these tasks cannot be played from what was recorded; empty when they can. Raises MalformedError, as ``get`` does."""
    for task in tasks:
        if task.cassette is None:
            return f"what {task.place} asked its model was not recorded"
        cassette = Cassette.read(get(task.cassette))
        if cassette.head.left_out:
            return f"what {task.place} asked its model was not recorded: {_LEFT_OUT[cassette.head.left_out]}"
        for number, call in enumerate(cassette.calls, 1):
            if call.withheld:
                return f"reply {number} to {task.place} was left out of the record, because it held what looks like a secret"
        if task.talk is not None and _a_person_allowed(get(task.talk)):
            return f"a person allowed what the agent of {task.place} asked leave for; that is not done in the person's place"
    return ""


def _a_person_allowed(talk: bytes) -> bool:
    """Return whether a person allowed something in the conversation. Refusals repeat themselves: silence refuses."""
    events = (_record(line, AnsweredQuestion) for line in talk.splitlines())
    return any((each.event, each.answer, each.by) == ("permission", "allow", "person") for each in events)


def requests_of(records: bytes) -> tuple[str, ...]:
    """The digests of the requests of a task, in order; for one that was refused before it had one, the reason.

    Raises MalformedError (``not_reexecutable``).
    """
    calls = (_record(line, CallRecord) for line in records.splitlines())
    return tuple(call.request_sha256 or call.refused or "" for call in calls)


def _record(line: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return read_json(line, kind)
    except UnreadableDocumentError as error:
        words = f"what it recorded of its models cannot be read: {error}"
        raise MalformedError(f"the run cannot be done again: {words}", code="not_reexecutable") from error


def differing_requests(first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]) -> Iterator[Difference]:
    """Yield differing requests of two runs: by task, the digests that only one has, or another order."""
    for place in sorted({*first, *second}):
        before, after = first.get(place, ()), second.get(place, ())
        if before == after:
            continue
        gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
        if gone or new:
            yield Difference(key=f"requests.{place}", expected=sorted(gone.elements()), actual=sorted(new.elements()))
        else:
            yield Difference(key=f"requests.{place}.order", expected=list(before), actual=list(after))


def decisions_of_run(history: RunHistory) -> dict[str, Any]:
    """Return all decisions in a form that two runs of one order share: the plan, every verdict of gates and reviewers, and
    why."""
    run_id = history.run.run_id
    return {
        "contract": _contract(history),
        "plans": [[list(shard.allowed_paths) for shard in plan.contracts] for plan in history.plans.values()],
        "reviews": [
            {"verdict": each.verdict, "findings": [[f.code, f.path, f.line, f.blocking] for f in each.findings]}
            for each in history.reviews.values()
        ],
        # Sorted, because workers end in any order. The second run never lands, so landing is not compared.
        "gates": sorted(
            [each.gate, task_place(run_id, each.task_id or ""), each.verdict, each.code]
            for each in history.gates
            if each.gate != "landing"
        ),
    }


def _contract(history: RunHistory) -> dict[str, Any]:
    contract = history.run.contract
    if contract is None:
        return {}
    return {"paths": list(contract.allowed_paths), "tests": [test.cmd for test in contract.acceptance_tests]}


def _role(place: str) -> str:
    return {"pm": "pm", "plan": "techlead", "review": "reviewer"}.get(place.partition(".")[0], "")
