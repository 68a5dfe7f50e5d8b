"""A call that is given up before its reply has ended leaves a record, and its use is a lower bound."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.models.gateway import ModelGateway
from gatewright.tasks.budget_meter import BudgetMeter
from tests.models.calls import APIS, ask, make_gateway, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Endless, Fail, Hang, Raw, Say
from tests.models.wire_forms import Api
from tests.waiting import until

#: Bytes of a stream after which words have come, by whichever API.
_WORDS = 4000


async def give_up(gateway: ModelGateway, provider: ScriptedProvider, api: Api, meter: BudgetMeter) -> None:
    """Ask, and be cancelled once the provider has the request and what it read is counted, where it says anything."""

    async def asking() -> None:
        path, body = request_of(api, streamed=True)
        async with gateway.client() as client, client.post(path, json=body) as reply:
            size = 0
            async for piece in reply.content.iter_any():
                size += len(piece)
                if size > _WORDS:
                    started.set()

    started = asyncio.Event()
    task = asyncio.create_task(asking())
    if isinstance(provider.scripts["say"][0], Endless):  # type: ignore[index]
        await started.wait()
    await until(lambda: bool(provider.requests))
    task.cancel()
    await asyncio.wait({task})
    assert meter.usage is not None


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_that_is_given_up_counts_for_what_was_seen(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Endless(delay=0.01)]
    meter = BudgetMeter()
    gateway = make_gateway(provider, spend=meter.spend)
    await give_up(gateway, provider, api, meter)
    (call,) = gateway.records.calls
    assert (call.whole, call.incomplete, call.output_tokens > 0) == (False, True, True)
    assert call.sent[0].bytes == len(provider.requests[0].body)
    (recorded,) = gateway.recording.calls
    assert not recorded.whole
    used = meter.usage
    assert used is not None
    assert (used.incomplete, used.tokens >= call.output_tokens) == (True, True)


async def test_a_reply_that_the_budget_cuts_is_a_lower_bound(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Endless()]
    gateway = make_gateway(provider, budget=Budget(tokens=1000))
    await ask(gateway, *request_of("responses", streamed=True))
    (call,) = gateway.records.calls
    assert (call.refused, call.incomplete, gateway.usage.incomplete) == ("budget_exceeded", True, True)


async def test_a_call_without_any_reply_has_an_unknown_use(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Hang()]
    meter = BudgetMeter()
    gateway = make_gateway(provider, spend=meter.spend)
    await give_up(gateway, provider, "responses", meter)
    (call,) = gateway.records.calls
    assert (call.incomplete, call.input_tokens, call.output_tokens) == (True, 0, 0)
    assert call.sent[0].bytes == len(provider.requests[0].body)
    assert meter.usage == Usage(tokens=0, cost_usd=0, iterations=1, delivery="1", incomplete=True)


async def test_a_reply_interrupted_and_later_completed_is_a_lower_bound(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = lambda _: Raw((b'{"a": ',), close=True) if len(provider.requests) == 1 else Say("whole")
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses"))
    assert (got.status, gateway.records.calls[0].incomplete) == (200, True)


@pytest.mark.parametrize("script", [[Say("whole")], [Fail(500, times=1, then=Say("whole"))], [Fail(401)]])
async def test_what_is_known_of_a_reply_is_all_there_is(provider: ScriptedProvider, script: list[Say | Fail]) -> None:
    provider.scripts["say"] = list(script)
    gateway = make_gateway(provider)
    await ask(gateway, *request_of("responses"))
    assert not gateway.records.calls[0].incomplete
    assert not gateway.usage.incomplete
