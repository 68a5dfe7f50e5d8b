"""What two runs asked and decided is compared; calls that cannot be played are told apart, with the reason."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from gatewright.app.replay.recorded_calls import AskedTask, differing_requests, requests_of, why_not_played
from gatewright.app.replay.reexecution import RecordedRun, compare
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.models.cassettes import CassetteWriter, Recorded
from gatewright.models.records import CallRecord
from gatewright.secrets import SecretScanner
from gatewright.services.worker.agents.port import AgentPermission, AgentStarted, Answered
from tests.evidence.recorded_runs import MAKERS

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def call(reply: str = "fine") -> Recorded:
    return Recorded(
        request_sha256=hashlib.sha256(b"{}").hexdigest(),
        request="{}",
        status=200,
        content_type="application/json",
        reply=(reply,),
        whole=True,
        model_used="m",
        provider="p",
        input_tokens=1,
        cached_tokens=0,
        cache_written_tokens=0,
        output_tokens=1,
    )


def artifact(name: str, data: bytes) -> Artifact:
    digest = hashlib.sha256(data).hexdigest()
    return Artifact(name=name, uri=f"artifact:sha256:{digest}", sha256=digest)


def told(tape: bytes | None) -> str:
    """Why a task with this cassette cannot be played."""
    kept = artifact("model_cassette", tape) if tape is not None else None
    return why_not_played([AskedTask("plan.w01", "", artifact("model_calls", b""), kept, None)], lambda _: tape or b"")


@pytest.mark.parametrize(
    ("writer", "words"),
    [
        (CassetteWriter("plan.w01"), ""),
        (CassetteWriter("plan.w01", texts=False), "keep_texts"),
        (CassetteWriter("plan.w01", most_bytes=10), "more bytes than a cassette holds"),
    ],
)
def test_the_reason_why_calls_cannot_be_replayed_is_reported(writer: CassetteWriter, words: str) -> None:
    writer.record(call())
    assert (words in told(writer.as_jsonl())) if words else told(writer.as_jsonl()) == ""


def test_calls_that_were_never_recorded_or_lost_a_secret_are_not_played() -> None:
    assert told(None) == "what plan.w01 asked its model was not recorded"
    writer = CassetteWriter("plan.w01")
    writer.record(call())
    writer.record(call(f"your token is {TOKEN}"))
    assert told(writer.as_jsonl(SecretScanner())).startswith("reply 2 to plan.w01 was left out")


@pytest.mark.parametrize(
    ("answer", "by", "again"),
    [("allow", "person", False), ("reject", "person", True), ("reject", "silence", True), ("allow", "contract", True)],
)
def test_what_a_person_allowed_is_not_allowed_again_in_the_persons_place(answer: Answered, by: str, again: bool) -> None:
    question = AgentPermission(asked="command", subject="make", answer=answer, by=by, person="Ada")  # type: ignore[arg-type]
    events = (AgentStarted(agent="codex", version="1", session="session"), question)
    talk = artifact("codex_events", b"".join(msgspec.json.encode(each) + b"\n" for each in events))
    writer = CassetteWriter("plan.w01")
    writer.record(call())
    tape = artifact("model_cassette", writer.as_jsonl())
    stored = {talk.uri: b"".join(msgspec.json.encode(each) + b"\n" for each in events), tape.uri: writer.as_jsonl()}
    task = AskedTask("plan.w01", "", artifact("model_calls", b""), tape, None, talk)
    why = why_not_played([task], lambda each: stored[each.uri])
    assert (why == "") is again
    assert again or "a person allowed" in why


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json"])
def test_a_cassette_that_is_none_is_refused(damage: bytes) -> None:
    with pytest.raises(MalformedError) as caught:
        told(damage)
    assert caught.value.reason == "cassette_invalid"


def test_other_requests_differ_hard_and_another_order_differs_softly() -> None:
    run = MAKERS["success"]().run

    def report(*digests: str) -> tuple[str, list[str], list[str]]:
        both = (RecordedRun({"plan.w01": ("a", "b", "b")}, {}), RecordedRun({"plan.w01": digests}, {}))
        made = compare(run, run, "2026-01-02T03:04:05Z", both)
        return made.status, [each.key for each in made.hard_diffs], [each.key for each in made.soft_diffs]

    assert report("a", "b", "b") == ("pass", [], [])
    assert report("b", "a", "b") == ("pass", [], ["requests.plan.w01.order"])
    for other in (("a", "b"), ("a", "b", "c"), ("a", "b", "b", "b")):
        assert report(*other) == ("fail", ["requests.plan.w01"], [])
    (found,) = differing_requests({"plan": ("a", "b")}, {"plan": ("a", "c")})
    assert (found.expected, found.actual) == (["b"], ["c"])


def test_another_decision_is_a_hard_difference() -> None:
    run = MAKERS["success"]().run
    both = (RecordedRun({}, {"reviews": ["PASS"]}), RecordedRun({}, {"reviews": ["FAIL"]}))
    made = compare(run, run, "2026-01-02T03:04:05Z", both)
    assert (made.status, [each.key for each in made.hard_diffs]) == ("fail", ["decisions.reviews"])


def test_a_call_without_a_request_counts_by_its_refusal() -> None:
    records = [
        CallRecord(
            number=1, time="t", role="worker", endpoint="/v1/x", status=403, seconds=0.1, refused="endpoint_not_allowed"
        ),
        CallRecord(number=2, time="t", role="worker", endpoint="/v1/x", status=200, seconds=0.1, request_sha256="a" * 64),
    ]
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in records)
    assert requests_of(lines) == ("endpoint_not_allowed", "a" * 64)
