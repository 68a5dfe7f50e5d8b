"""What a publisher is told of runs: its own, in order, without a gap, by pages; and nothing of those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import (
    AbortRequest,
    ContextRequest,
    Error,
    EventsRequest,
    RunContext,
    RunEvents,
    RunList,
    RunRequest,
    RunsRequest,
    SubmitReply,
    codec,
)
from gatewright.ledger import chain
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.run_queries import ANSWER_BYTES, MOST_WAITING
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake
from tests.waiting import PATIENCE


@pytest.fixture
async def intake(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[IntakeFixture]:
    opened = open_intake(
        bus,
        gates,
        tmp_path,
        make_publisher("default", may_see="any"),
        make_publisher("acme"),
        make_publisher("beta"),
        make_publisher("curious", questions={"per_minute": 1, "burst": 1}),
    )
    yield opened
    for task in opened.following:
        task.cancel()
    await asyncio.gather(*opened.following, return_exceptions=True)


async def begin(intake: IntakeFixture, request: RunRequest, publisher: str, key: str = "") -> str:
    order = msgspec.structs.replace(request, idempotency_key=key) if key else request
    answer = await intake.submit(order, publisher)
    assert isinstance(answer, SubmitReply), answer
    return answer.run_id


async def end(intake: IntakeFixture, run_id: str, publisher: str) -> None:
    await intake.store(AbortRequest(run_id=run_id, reason="enough", requested_by="me"), publisher, want="abort")


async def events(intake: IntakeFixture, run_id: str, publisher: str, after: int = 0, wait: int = 0) -> RunEvents | Error:
    question = codec.encode(EventsRequest(run_id=run_id, after=after, wait_seconds=wait))
    reply = await intake.ask("events", question, publisher)
    return codec.decode(reply.data, RunEvents) if reply.schema == "run_events.v1" else codec.decode(reply.data, Error)


async def runs(
    intake: IntakeFixture, publisher: str, limit: int = 50, before: str | None = None, *, open_only: bool = False
) -> RunList:
    question = codec.encode(RunsRequest(limit=limit, before=before, open_only=open_only))
    return codec.decode((await intake.ask("runs", question, publisher)).data, RunList)


async def listed(intake: IntakeFixture, publisher: str, count: int) -> RunList:
    """The list once the index has seen so many runs."""
    async with asyncio.timeout(PATIENCE):
        while len((found := await runs(intake, publisher)).runs) < count:  # noqa: ASYNC110 - there is nothing that would tell
            await asyncio.sleep(0)
    return found


async def kept_open(intake: IntakeFixture, number: int) -> None:
    """Until so many questions of acme's wait."""
    async with asyncio.timeout(PATIENCE):
        while intake.questions.waiting["acme"] < number:  # noqa: ASYNC110 - there is nothing that would tell
            await asyncio.sleep(0)


async def test_run_events_come_in_order_and_end_with_sealing(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = await begin(intake, request_for, "acme")
    first = await events(intake, run_id, "acme")
    assert isinstance(first, RunEvents)
    assert first.more
    seq, head = chain.check(first.events)
    await end(intake, run_id, "acme")
    rest = await events(intake, run_id, "acme", after=seq)
    assert isinstance(rest, RunEvents)
    assert chain.check(rest.events, seq=seq, head=head)[0] == rest.events[-1].seq
    assert (rest.events[-1].event_type, rest.more) == ("bundle_sealed", False)
    assert await events(intake, run_id, "acme", after=rest.events[-1].seq, wait=20) == RunEvents(
        run_id=run_id, events=(), more=False
    )


async def test_the_events_of_another_publisher_s_run_do_not_exist(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = await begin(intake, request_for, "acme")
    for after in (0, 1, 10**6):
        theirs, nobodys = await events(intake, run_id, "beta", after), await events(intake, "run-0000000000", "beta", after)
        assert isinstance(theirs, Error)
        assert isinstance(nobodys, Error)
        assert (theirs.code, nobodys.code) == ("run_unknown", "run_unknown")
    assert isinstance(await events(intake, run_id, "default"), RunEvents)


async def test_a_query_waits_for_future_runs_and_next_events(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = run_id_of("order-4711", "acme")
    asked = asyncio.create_task(events(intake, run_id, "acme", wait=20))
    await kept_open(intake, 1)
    assert await begin(intake, request_for, "acme", "order-4711") == run_id
    first = await asyncio.wait_for(asked, PATIENCE)
    assert isinstance(first, RunEvents)
    assert first.events[0].event_type == "run_accepted"
    asked = asyncio.create_task(events(intake, run_id, "acme", after=first.events[-1].seq, wait=20))
    await kept_open(intake, 1)
    await end(intake, run_id, "acme")
    second = await asyncio.wait_for(asked, PATIENCE)
    assert isinstance(second, RunEvents)
    assert second.events[0].seq == first.events[-1].seq + 1


async def test_no_query_waits_once_the_process_is_stopping(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = await begin(intake, request_for, "acme")
    asked = [asyncio.create_task(events(intake, run_id, "acme", after=10**6, wait=20)) for _ in range(3)]
    await kept_open(intake, 3)
    intake.questions.index.release()
    answers = await asyncio.wait_for(asyncio.gather(*asked, events(intake, run_id, "acme", after=10**6, wait=20)), PATIENCE)
    assert {isinstance(answer, RunEvents) and answer.more for answer in answers} == {True}


async def test_one_publisher_cannot_keep_more_than_its_number_of_questions_open(
    intake: IntakeFixture, request_for: RunRequest
) -> None:
    run_id = await begin(intake, request_for, "acme")
    asked = [asyncio.create_task(events(intake, run_id, "acme", after=10**6, wait=20)) for _ in range(MOST_WAITING)]
    await kept_open(intake, MOST_WAITING)
    assert isinstance(await asyncio.wait_for(events(intake, run_id, "acme", after=10**6, wait=20), PATIENCE), RunEvents)
    intake.questions.index.release()
    await asyncio.gather(*asked)


async def test_an_answer_of_many_large_events_is_given_in_parts(intake: IntakeFixture, request_for: RunRequest) -> None:
    request = msgspec.structs.replace(request_for, request="x" * (ANSWER_BYTES - 1000))
    order = msgspec.structs.replace(request, allowed_paths=("/",))
    answer = await intake.submit(order, "default")
    assert isinstance(answer, Error | SubmitReply)
    if isinstance(answer, Error):
        pytest.fail(answer.message)
    seq, parts = 0, 0
    while isinstance(part := await events(intake, answer.run_id, "default", after=seq), RunEvents) and part.events:
        assert part.events[0].seq == seq + 1
        assert len(part.events) == 1 or sum(len(codec.encode(event)) for event in part.events) <= ANSWER_BYTES
        seq, parts = part.events[-1].seq, parts + 1
        if not part.more:
            break
    run = await intake.run(answer.run_id)
    assert run is not None
    assert (seq, parts > 1) == (run.seq, True)


async def test_runs_are_listed_by_pages_newest_first_and_one_s_own_alone(
    intake: IntakeFixture, request_for: RunRequest
) -> None:
    mine = [await begin(intake, request_for, "acme", f"order-{number:04}") for number in range(5)]
    other = await begin(intake, request_for, "beta", "order-0000")
    await end(intake, mine[1], "acme")
    await listed(intake, "default", 6)
    first = await runs(intake, "acme", limit=3)
    assert ([run.run_id for run in first.runs], first.more) == ([mine[4], mine[3], mine[2]], True)
    second = await runs(intake, "acme", limit=3, before=first.runs[-1].run_id)
    assert ([(run.run_id, run.status) for run in second.runs], second.more) == (
        [(mine[1], "ABORTED"), (mine[0], "RUNNING")],
        False,
    )
    assert [run.run_id for run in (await runs(intake, "acme", open_only=True)).runs] == [mine[4], mine[3], mine[2], mine[0]]
    assert (await runs(intake, "acme", before=other)).runs == ()
    assert (await runs(intake, "acme", before="no such run")).runs == ()
    assert {run.publisher for run in (await runs(intake, "default")).runs} == {"acme", "beta"}
    begins = codec.encode(RunsRequest(prefix=mine[0][:8]))
    found = codec.decode((await intake.ask("runs", begins, "acme")).data, RunList).runs
    assert [run.run_id for run in found] == [run_id for run_id in reversed(mine) if run_id.startswith(mine[0][:8])]


@pytest.mark.parametrize("want", ["events", "runs", "context"])
async def test_questions_are_counted_and_garbage_is_answered(intake: IntakeFixture, want: str) -> None:
    for data in (b"", b"null", b"[]", b'{"run_id": "*"}', b'{"limit": 501}', b"\xff"):
        assert codec.decode((await intake.ask(want, data, "acme")).data, Error).code == "malformed"
    await intake.ask(want, b"{}", "curious")
    assert codec.decode((await intake.ask(want, b"{}", "curious")).data, Error).code == "rate_exceeded"
    assert codec.decode((await intake.ask(want, b"{}", "stranger")).data, Error).code == "publisher_unknown"


async def context(intake: IntakeFixture, question: bytes, publisher: str) -> RunContext | Error:
    reply = await intake.ask("context", question, publisher)
    return codec.decode(reply.data, RunContext) if reply.schema == "run_context.v1" else codec.decode(reply.data, Error)


async def test_the_context_of_a_run_is_shown_to_permitted_publishers(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = await begin(intake, request_for, "acme")
    question = codec.encode(ContextRequest(run_id=run_id, selectors=("summary", "diff", "review")))
    for publisher in ("acme", "default"):
        told = await context(intake, question, publisher)
        assert isinstance(told, RunContext), told
        run = await intake.run(run_id)
        assert run is not None
        assert (told.run_id, told.seq, told.state, told.tree) == (run_id, run.seq, run.state, None)
        assert request_for.request in told.sections[0].text
        assert "There is no change to show." in told.sections[1].text
    strange = await context(intake, question, "beta")
    unknown = await context(intake, codec.encode(ContextRequest(run_id="run-0000000000")), "beta")
    assert isinstance(strange, Error)
    assert isinstance(unknown, Error)
    assert (strange.code, strange.message.replace(run_id, "")) == (unknown.code, unknown.message.replace("run-0000000000", ""))
