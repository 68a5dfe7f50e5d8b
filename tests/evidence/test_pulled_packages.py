"""What a bundle claims about pulled packages: checked again offline, also against one who has the gatekeeper's key."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Environment
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.approved_runs import Forgery
from tests.evidence.pulled_runs import BEFORE, PulledRun, make_pulled


async def findings(run: PulledRun, folder: Path, signer: Signer, key: PrivateKey) -> list[str]:
    bundle = await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)
    return [f"{each.code} {each.message}" for each in verify(Path(bundle.location), [key.public]).findings]


async def test_a_run_with_pulled_packages_verifies(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    run = make_pulled()
    assert await findings(run, tmp_path, signer, private_key) == []
    assert run.run.pulled is not None


def old_environment(payload: e.RunEvent) -> e.RunEvent | None:
    if not isinstance(payload, e.TaskDispatched) or payload.role != "testrunner" or payload.contract is None:
        return payload
    contract = replace(payload.contract, environment=Environment(prefix=BEFORE), baseline_environment=None)
    return replace(payload, contract=contract)


def other_candidate(payload: e.RunEvent) -> e.RunEvent | None:
    return replace(payload, tree="7" * 40) if isinstance(payload, e.EnvironmentPulled) else payload


def other_order(payload: e.RunEvent) -> e.RunEvent | None:
    return replace(payload, order_sha256="7" * 64) if isinstance(payload, e.EnvironmentPulled) else payload


def other_request(payload: e.RunEvent) -> e.RunEvent | None:
    if not isinstance(payload, e.ApprovalRequested):
        return payload
    return replace(payload, request=replace(payload.request, order_sha256="7" * 64))


def unasked(payload: e.RunEvent) -> e.RunEvent | None:
    parked = isinstance(payload, e.StateEntered) and payload.state == "AWAITING_APPROVAL"
    return None if parked or isinstance(payload, e.ApprovalRequested) else payload


def unpulled(payload: e.RunEvent) -> e.RunEvent | None:
    return None if isinstance(payload, e.EnvironmentPulled) else payload


@pytest.mark.parametrize(
    ("forgery", "words"),
    [
        (old_environment, "another environment"),
        (other_candidate, "another candidate"),
        (other_order, "another candidate"),
        (other_request, "not the one that the rule makes"),
        (unasked, "no approval is about this order"),
        (unpulled, "were not pulled"),
    ],
)
async def test_a_forged_claim_about_packages_is_found(
    forgery: Forgery, words: str, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    found = await findings(make_pulled(forgery), tmp_path, signer, private_key)
    assert any(words in each for each in found), found
