"""A gateway sends nothing that no approved manifest of its task names: not elsewhere, not more, not of another run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as changed

from gatewright.contracts.transfers import TransferDestination, TransferLeave
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import DeniedError
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from gatewright.models.recorded_transfers import broken_by_calls
from gatewright.models.transfers import TransferGuard, TransfersPolicy, endpoint_of_provider
from tests.models.calls import QUICK, ask, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Fail, Raw, Say

RUN = "run-0123456789abcdef0123"
ASKING = TransfersPolicy.model_validate({"version": "1", "externalTransfers": "manual"})


def models_of(provider: ScriptedProvider, script: str = "say") -> ModelsPolicy:
    provider.scripts.setdefault("say", [Say("hello")])
    return ModelsPolicy.model_validate(provider.policy(script))


def leave_of(policy: ModelsPolicy, **other: object) -> TransferLeave:
    named = []
    for model in policy.models:
        provider = policy.provider(model.provider)
        assert provider is not None
        named.append(
            TransferDestination(provider=provider.name, endpoint=endpoint_of_provider(provider), model=model.upstream_name)
        )
    return changed(
        TransferLeave(run_id=RUN, role="worker", manifest_sha256="a" * 64, destinations=tuple(named), most_bytes=100_000),
        **other,
    )


async def status_of(
    policy: ModelsPolicy, leave: TransferLeave | None, asking: TransfersPolicy | None = ASKING
) -> tuple[int, str]:
    guard = TransferGuard(RUN, "worker", asking, leave)
    gateway = ModelGateway(policy, policy.grant("worker"), limits=QUICK, guard=guard)
    got = await ask(gateway, *request_of("responses"))
    return got.status, gateway.records.calls[0].refused or ""


async def test_what_an_approved_manifest_names_is_sent(provider: ScriptedProvider) -> None:
    policy = models_of(provider)
    assert await status_of(policy, leave_of(policy)) == (200, "")


async def test_nothing_is_sent_without_a_leave_and_everything_where_no_policy_asks(provider: ScriptedProvider) -> None:
    policy = models_of(provider)
    assert await status_of(policy, None) == (403, "transfer_not_approved")
    assert provider.requests == []
    assert await status_of(policy, None, None) == (200, "")


@pytest.mark.parametrize(
    "other",
    [
        {"run_id": "run-ffffffffffffffffffff"},
        {"role": "reviewer"},
        {"most_bytes": 10},
        {"destinations": (TransferDestination(provider="scripted", endpoint="http://127.0.0.1:1", model="scripted"),)},
        {"destinations": (TransferDestination(provider="another", endpoint="https://api.example.org:443", model="another"),)},
    ],
    ids=["another run", "another role", "too many bytes", "another endpoint", "another provider and model"],
)
async def test_a_leave_for_something_else_sends_nothing(provider: ScriptedProvider, other: dict[str, object]) -> None:
    policy = models_of(provider)
    assert await status_of(policy, leave_of(policy, **other)) == (403, "transfer_not_approved")
    assert provider.requests == []


async def test_a_destination_that_was_swapped_after_the_approval_gets_nothing(provider: ScriptedProvider) -> None:
    leave = leave_of(models_of(provider))
    with ScriptedProvider({"say": [Say("mine")]}) as other:
        assert await status_of(models_of(other), leave) == (403, "transfer_not_approved")
        assert other.requests == []


async def test_a_model_that_the_manifest_does_not_name_gets_nothing(provider: ScriptedProvider) -> None:
    policy = models_of(provider)
    leave = leave_of(policy)
    rest = tuple(each for each in leave.destinations if each.model != "scripted")
    assert len(rest) < len(leave.destinations)
    nothing = rest or (TransferDestination(provider="none", endpoint="none", model="none"),)
    assert await status_of(policy, changed(leave, destinations=nothing)) == (403, "transfer_not_approved")
    assert provider.requests == []


async def test_a_provider_that_leads_elsewhere_leads_nowhere(provider: ScriptedProvider) -> None:
    with ScriptedProvider({"say": [Say("mine")]}) as other:
        moved = Raw((b"",), status=307, headers={"Location": other.root + "/s/say/v1/responses"})
        provider.scripts["moved"] = [moved]
        policy = models_of(provider, "moved")
        status, _ = await status_of(policy, leave_of(policy))
        assert status != 200
        assert len(provider.requests) == 1
        assert other.requests == []


async def test_bytes_of_all_calls_count(provider: ScriptedProvider) -> None:
    policy = models_of(provider)
    entry, where = policy.models[0], policy.providers[0]
    own = policy.provider(entry.provider) or where
    guard = TransferGuard(RUN, "worker", ASKING, leave_of(policy, most_bytes=100))
    guard.check(own, entry, 60)
    with pytest.raises(DeniedError, match="60 were"):
        guard.check(own, entry, 41)
    guard.check(own, entry, 40)
    assert guard.sent == 100


async def test_only_external_transfers_are_recorded_before_sending(provider: ScriptedProvider) -> None:
    policy, told = models_of(provider), []

    def spend(*, sent_bytes: int = 0, **_: object) -> None:
        told.append((sent_bytes, len(provider.requests)))

    guard = TransferGuard(RUN, "worker", ASKING, leave_of(policy), spend)
    gateway = ModelGateway(policy, policy.grant("worker"), limits=QUICK, guard=guard)
    assert (await ask(gateway, *request_of("responses"))).status == 200
    assert told == [(len(provider.requests[0].body), 0)]
    own = TransfersPolicy.model_validate({"version": "1", "externalTransfers": "manual", "internal": ["127.0.0.1"]})
    gateway = ModelGateway(policy, policy.grant("worker"), limits=QUICK, guard=TransferGuard(RUN, "worker", own, None, spend))
    assert (await ask(gateway, *request_of("responses"))).status == 200
    assert len(told) == 1


async def test_every_transfer_attempt_is_recorded_and_covered_by_its_permission(
    provider: ScriptedProvider,
) -> None:
    provider.scripts["say"] = [Fail(503, times=1, then=Say("hello"))]
    policy = models_of(provider)
    leave, usage = leave_of(policy), Usage(tokens=0, cost_usd=0.0, iterations=0, sent_bytes=10_000, delivery="1.1")
    gateway = ModelGateway(policy, policy.grant("worker"), limits=QUICK, guard=TransferGuard(RUN, "worker", ASKING, leave))
    assert (await ask(gateway, *request_of("responses"))).status == 200
    (sent,) = gateway.records.calls[0].sent
    assert (sent.bodies, sent.bytes) == (2, sum(len(each.body) for each in provider.requests))
    assert (sent.manifest_sha256, sent.internal) == (leave.manifest_sha256, False)
    records = gateway.records.as_jsonl()
    assert broken_by_calls("worker", leave, records, usage) == ()
    for other in ({"manifest_sha256": "b" * 64}, {"most_bytes": sent.bytes - 1}, {"destinations": ()}):
        assert broken_by_calls("worker", changed(leave, **other), records, usage), other
    assert broken_by_calls("worker", None, records)
    assert broken_by_calls("worker", leave, records, changed(usage, sent_bytes=sent.bytes - 1))


async def test_a_refused_call_ends_the_task_whatever_its_client_does(provider: ScriptedProvider) -> None:
    policy = models_of(provider)
    gateway = ModelGateway(policy, policy.grant("worker"), limits=QUICK, guard=TransferGuard(RUN, "worker", ASKING))
    gateway.check_refused()
    assert (await ask(gateway, *request_of("responses"))).status == 403
    assert gateway.refused.is_set()
    with pytest.raises(DeniedError) as refused:
        gateway.check_refused()
    assert refused.value.reason == "transfer_not_approved"


async def test_a_host_of_the_operators_own_needs_no_leave(provider: ScriptedProvider) -> None:
    own = TransfersPolicy.model_validate({"version": "1", "externalTransfers": "manual", "internal": ["127.0.0.1"]})
    assert await status_of(models_of(provider), None, own) == (200, "")


def test_a_suffix_covers_no_host_that_only_ends_alike(provider: ScriptedProvider) -> None:
    own = TransfersPolicy.model_validate({"version": "1", "externalTransfers": "manual", "internal": ["*.example.org"]})
    given = models_of(provider).providers[0]
    hosts = {
        "https://a.example.org": True,
        "https://example.org": False,
        "https://evilexample.org": False,
        "https://example.org.evil.net": False,
    }
    assert {url: own.is_internal(given.model_copy(update={"base_url": url})) for url in hosts} == hosts
    through = given.model_copy(update={"base_url": "https://a.example.org", "proxy": "http://proxy.evil.net:3128"})
    assert not own.is_internal(through)
