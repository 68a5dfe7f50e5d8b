"""A task uses what it was given and no more: tokens and money are counted while replies stream, whatever providers say."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from gatewright.budgets import spend_freely
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import BudgetError, DeniedError
from gatewright.models.gateway.spending import CallMeter, Spending
from gatewright.models.policy import ModelsPolicy
from gatewright.models.prices import Price, TokenUsage
from gatewright.tasks.budget_meter import BudgetMeter
from tests.models.calls import APIS, ask, make_gateway, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Endless, Raw, Say
from tests.models.wire_forms import Api

PRICES = {"input": 1.0, "output": 10.0}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("limit", [Budget(tokens=20_000), Budget(cost_usd=0.2)], ids=["tokens", "money"])
async def test_an_endless_reply_is_cut_near_the_limit(
    provider: ScriptedProvider, api: Api, limit: Budget, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.scripts["say"] = [Endless()]
    gateway = make_gateway(provider, budget=limit, prices=PRICES)
    asked = time.monotonic()
    got = await ask(gateway, *request_of(api, streamed=True))
    assert not got.whole
    assert gateway.exceeded.is_set()
    used = gateway.usage
    part = used.tokens / limit.tokens if limit.tokens else used.cost_usd / (limit.cost_usd or 1)
    with capsys.disabled():
        print(f"\n{api}: stopped at {part:.2%} of its limit, {time.monotonic() - asked:.2f} s after the call")  # noqa: T201
    assert 1 < part <= 1.05
    # What went out is no more than what was counted: four bytes a token.
    assert got.text.count("word word word word ") * 5 <= 20_000 * 1.05
    assert provider.given_up.wait(10)
    assert gateway.records.calls[0].refused == "budget_exceeded"
    assert not gateway.records.calls[0].whole


async def test_the_task_itself_is_ended_when_a_reply_runs_away(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Endless()]
    meter = BudgetMeter(Budget(tokens=5_000))
    gateway = make_gateway(provider, spend=meter.spend)
    ended = asyncio.Event()

    async def agent() -> None:
        try:
            async with gateway.client() as client:
                path, body = request_of("responses", streamed=True)
                async with client.post(path, json=body) as reply:
                    async for _ in reply.content.iter_any():
                        pass
                await asyncio.Event().wait()  # it hangs, whatever happens to its call
        finally:
            ended.set()

    with pytest.raises(BudgetError, match="tokens"):
        await meter.within(agent())
    assert ended.is_set()
    assert meter.usage is not None
    assert 5_000 < meter.usage.tokens <= 5_250


async def test_an_agent_that_calls_again_and_again_is_stopped_within_five_percent(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("again", usage=(1000, 0, 10))]
    gateway = make_gateway(provider, budget=Budget(tokens=30_000))
    path, body = request_of("messages", "x" * 2000)
    statuses = [(await ask(gateway, path, body)).status for _ in range(40)]
    # The last call that was sent fits; the one after would have been too much, by what was learnt of the calls before.
    assert statuses.count(200) == 29
    assert set(statuses[29:]) == {429}
    assert gateway.usage.tokens == 29 * 1010
    assert len(provider.requests) == 29
    with pytest.raises(BudgetError, match="not sent"):
        gateway.check()


async def test_after_the_budget_calls_are_refused_in_their_apis_form(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("much", usage=(100, 0, 100))]
    gateway = make_gateway(provider, budget=Budget(tokens=150))
    await ask(gateway, *request_of("responses"))
    for api in APIS:
        got = await ask(gateway, *request_of(api))
        assert got.status == 429
        assert "budget_exceeded" in got.text
        assert got.headers["x-should-retry"] == "false"
        assert "error" in json.loads(got.text)
    assert len(provider.requests) == 1


async def test_a_budget_of_turns_counts_calls(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("turn")]
    gateway = make_gateway(provider, budget=Budget(iterations=2))
    assert [(await ask(gateway, *request_of("responses"))).status for _ in range(3)] == [200, 200, 429]
    assert len(provider.requests) == 2


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_a_long_reply_without_usage_is_measured_by_length(provider: ScriptedProvider, api: Api, streamed: bool) -> None:
    provider.scripts["say"] = [Say("word " * 1000, usage=(0, 0, 0))]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of(api, "please " * 100, streamed=streamed))
    call = gateway.records.calls[0]
    assert call.usage_doubted
    assert 1250 <= call.output_tokens <= 1400
    assert call.input_tokens >= 175
    assert gateway.usage.tokens == call.input_tokens + call.output_tokens


async def test_a_plausible_usage_report_is_used_and_overcharges_are_refunded(
    provider: ScriptedProvider,
) -> None:
    provider.scripts["say"] = [Say("word " * 1000, usage=(50, 0, 400))]
    gateway = make_gateway(provider)
    for number in range(1, 4):
        await ask(gateway, *request_of("messages", "please " * 100, streamed=True))
        call = gateway.records.calls[-1]
        assert not call.usage_doubted
        assert (call.input_tokens, call.output_tokens) == (50, 400)
        assert number * 450 <= gateway.usage.tokens <= number * 450 + 1000
    assert gateway.usage.tokens < 3 * 450 + 1000


async def test_a_reply_of_nothing_but_noise_counts_and_ends(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Raw((b": ping\n\n" * 100_000,) * 20, headers={"Content-Type": "text/event-stream"})]
    gateway = make_gateway(provider, budget=Budget(tokens=10_000))
    got = await ask(gateway, *request_of("responses", streamed=True))
    assert not got.whole
    assert gateway.exceeded.is_set()


async def test_a_client_that_leaves_early_pays_for_what_was_written(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Endless(delay=0.01)]
    gateway = make_gateway(provider)
    path, body = request_of("chat_completions", streamed=True)
    async with gateway.client() as client:
        async with client.post(path, json=body) as reply:
            await reply.content.readuntil(b"word word")
        assert await asyncio.to_thread(provider.given_up.wait, 20)
    call = gateway.records.calls[0]
    assert call.output_tokens > 0
    assert not call.whole
    assert gateway.usage.tokens == call.input_tokens + call.output_tokens


async def test_money_without_a_price_is_refused_before_anything_runs(provider: ScriptedProvider) -> None:
    policy = ModelsPolicy.model_validate(provider.policy("say"))
    with pytest.raises(DeniedError) as caught:
        policy.grant("worker", budget=Budget(cost_usd=1.0))
    assert caught.value.reason == "model_price_unknown"
    assert policy.grant("worker", budget=Budget(tokens=1)).default == "scripted"


async def test_a_call_without_a_known_price_has_no_cost(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("for what?")]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of("responses"))
    assert gateway.records.calls[0].cost_usd is None


@pytest.mark.parametrize("price", [None, Price(input=0.0, output=0.0)], ids=["unknown", "free"])
def test_a_task_reports_whether_a_price_is_unknown(price: Price | None) -> None:
    meter = BudgetMeter()
    call = CallMeter(Spending(Budget(), meter.spend), price, TokenUsage(input=10))
    call.begin()
    assert meter.usage is not None
    assert (meter.usage.tokens, meter.usage.cost_usd, meter.usage.unpriced) == (10, 0.0, price is None)
    meter.spend(tokens=5, cost_usd=0.5)
    assert meter.usage.unpriced is (price is None), "a later call with a price makes the sum no more known"


def test_the_parts_of_a_price() -> None:
    price = Price(input=3.0, output=15.0, cached_input=0.3, cache_write=3.75)
    usage = TokenUsage(input=1_000_000, cached=500_000, cache_written=100_000, output=10_000)
    assert price.nano_usd(usage) == pytest.approx((0.4 * 3 + 0.5 * 0.3 + 0.1 * 3.75 + 0.15) * 1e9, abs=1)


def test_usage_never_shrinks_while_a_reply_streams() -> None:
    spending = Spending(Budget(), spend_freely)
    meter = CallMeter(spending, None, TokenUsage(input=10))
    meter.count_streamed(100, 400, TokenUsage(input=50, output=90))
    meter.count_streamed(100, 0, TokenUsage(input=50, output=90))
    assert spending.usage.tokens == 150
    assert meter.settle().output == 90
    assert meter.settle() == meter.usage
    spending.count(5, 0)
    assert spending.usage.tokens == 150  # ten were counted too much, and are given back first
