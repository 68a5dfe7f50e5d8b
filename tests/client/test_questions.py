"""What a run has come to, and how a review stands, as programs ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import APPROVALS_SUBJECT
from gatewright.client import Client
from gatewright.client.approvals import ApprovalInbox
from gatewright.contracts import ApprovalList, ApprovalsRequest, ContextRequest, Error, RunContext, codec
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.errors import MalformedError
from gatewright.resources import schema_directory
from tests.gatekeeper.simulated_run import RUN_ID

CONTEXT = RunContext(run_id=RUN_ID, seq=4, status="RUNNING", state="S0", attempt=1, sections=())


async def answer_with(bus: MemoryBus, publisher: str, answer: RunContext | Error) -> list[ContextRequest]:
    """Serve the subject of one publisher."""
    asked: list[ContextRequest] = []

    async def context(message: Message) -> Reply:
        asked.append(codec.decode(message.data, ContextRequest))
        return Reply(codec.encode(answer), codec.schema_of(answer))

    await bus.serve("gw-gatekeeper", {f"gw.context{publisher}": context})
    return asked


async def test_a_context_is_asked_for_under_the_publishers_own_subject(bus: MemoryBus) -> None:
    asked = await answer_with(bus, ".ci", CONTEXT)
    client = Client(bus, publisher="ci")
    assert await client.context(RUN_ID) == CONTEXT
    assert await client.context(RUN_ID, ["diff"], scope="full") == CONTEXT
    assert asked == [
        ContextRequest(run_id=RUN_ID),
        ContextRequest(run_id=RUN_ID, selectors=("diff",), scope="full"),
    ]


@pytest.mark.parametrize(("selectors", "scope"), [(["secrets"], "brief"), ([], "brief"), (["diff"], "everything")])
async def test_a_section_that_there_is_not_is_refused_before_it_is_sent(
    client: Client, bus: MemoryBus, selectors: Sequence[str], scope: str
) -> None:
    asked = await answer_with(bus, "", CONTEXT)
    with pytest.raises(MalformedError):
        await client.context(RUN_ID, selectors, scope=scope)
    assert asked == []


async def test_a_run_that_left_the_ledger_is_an_error_of_the_input(client: Client, bus: MemoryBus) -> None:
    await answer_with(bus, "", Error(code="run_expired", message="it is in its bundle"))
    with pytest.raises(MalformedError) as gone:
        await client.context(RUN_ID)
    assert gone.value.reason == "run_expired"


def reviews() -> ApprovalStanding:
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "review.json"
    return codec.decode(example.read_bytes(), ApprovalList).approvals[0]


async def test_only_the_last_review_of_a_run_is_returned(bus: MemoryBus) -> None:
    review = reviews()
    run_id, first = review.request.run_id, review.request.request_id
    later = replace(review, request=replace(review.request, request_id=f"{first}0"))
    landing = replace(review, review=None, request=replace(review.request, request_id=f"{first}1"))
    asked: list[ApprovalsRequest] = []

    async def listed(message: Message) -> Reply:
        asked.append(codec.decode(message.data, ApprovalsRequest))
        return Reply(codec.encode(ApprovalList(approvals=(review, later, landing), more=False)), "approval_list.v1")

    await bus.serve("gw-gatekeeper", {APPROVALS_SUBJECT: listed})
    inbox = ApprovalInbox(bus)
    assert await inbox.review(run_id) == later
    assert await inbox.review(first) == review
    assert {each.run_id for each in asked} == {run_id}
    with pytest.raises(MalformedError) as none:
        await inbox.review(f"{first}1")
    assert none.value.reason == "approval_unknown"
