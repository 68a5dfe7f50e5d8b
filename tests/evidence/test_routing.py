"""What a bundle says of the risk of a change is made again from its events, also against one who has the gatekeeper's key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import ReviewRouting, codec
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.approved_runs import Forgery
from tests.evidence.routed_runs import RoutedRun, make_routed
from tests.evidence.tampering import CODES, KINDS


async def sealed(run: RoutedRun, folder: Path, signer: Signer) -> Path:
    writer = BundleWriter(folder)
    return Path((await writer.seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


async def codes(run: RoutedRun, folder: Path, signer: Signer, key: PrivateKey) -> set[str]:
    return {each.code for each in verify(await sealed(run, folder, signer), [key.public]).findings}


async def test_a_routed_run_verifies_and_its_bundle_holds_the_document(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    run = make_routed()
    bundle = await sealed(run, tmp_path, signer)
    assert verify(bundle, [private_key.public]).findings == ()
    routing = codec.decode((bundle / layout.REVIEW_ROUTING).read_bytes(), ReviewRouting)
    assert routing == run.run.routing
    assert routing.tier == "high"
    assert {each.signal for each in routing.signals if each.tier == "high"} == {"paths"}


async def test_a_run_without_rules_has_no_such_document(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(make_routed(rules=None), tmp_path, signer)
    assert verify(bundle, [private_key.public]).findings == ()
    assert not (bundle / layout.REVIEW_ROUTING).exists()


async def test_the_document_cannot_be_changed_in_the_bundle(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(make_routed(), tmp_path / "runs", signer)
    told = {}
    for kind, tamper in KINDS.items():
        copy = tmp_path / kind / bundle.name
        shutil.copytree(bundle, copy)
        if tamper(copy, layout.REVIEW_ROUTING):
            found = verify(copy, [private_key.public]).findings
            told[kind] = bool({each.code for each in found if each.path == layout.REVIEW_ROUTING} & CODES[kind])
    assert told
    assert all(told.values()), told


def routed(**changes: object) -> Forgery:
    def forge(payload: e.RunEvent) -> e.RunEvent:
        return replace(payload, routing=replace(payload.routing, **changes)) if isinstance(payload, e.ReviewRouted) else payload

    return forge


def without_doubts(payload: e.RunEvent) -> e.RunEvent | None:
    return routed(critic_triggers=())(payload)


def a_lane_that_satisfies_more(payload: e.RunEvent) -> e.RunEvent | None:
    if not isinstance(payload, e.ReviewRouted):
        return payload
    lanes = tuple(replace(lane, satisfies="tests") if lane.lane == "work" else lane for lane in payload.routing.lanes)
    return routed(lanes=lanes)(payload)


def harmless_paths(payload: e.RunEvent) -> e.RunEvent:
    return (
        replace(payload, path_kinds={"high": 0, "low": 2, "other": 0}) if isinstance(payload, e.CandidateComposed) else payload
    )


def no_paths(payload: e.RunEvent) -> e.RunEvent:
    return replace(payload, path_kinds=None) if isinstance(payload, e.CandidateComposed) else payload


def no_rules(payload: e.RunEvent) -> e.RunEvent | None:
    if isinstance(payload, e.CandidateComposed):
        return no_paths(payload)
    return replace(payload, routing=None) if isinstance(payload, e.RunAccepted) else payload


def left_out(payload: e.RunEvent) -> e.RunEvent | None:
    return None if isinstance(payload, e.ReviewRouted) else payload


FORGERIES = {
    "a lower tier": routed(tier="low"),
    "another tree": routed(candidate_tree="f" * 40),
    "no doubts": without_doubts,
    "a maker's lane that satisfies a gate": a_lane_that_satisfies_more,
    "paths that lie elsewhere": harmless_paths,
    "paths that were not told": no_paths,
    "no rules, and their digest": no_rules,
    "no document": left_out,
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_routing_can_be_made_up(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery
) -> None:
    assert "routing_contradicts" in await codes(make_routed(forgery), tmp_path, signer, private_key)


async def test_a_routing_recorded_twice_is_found(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    run = RoutedRun()
    run.up_to_the_tests()
    honest = make_routed().run.routing
    assert honest is not None
    run.step(e.LabelledEvent(e.ReviewRouted(routing=honest)))
    run.step(e.LabelledEvent(e.ReviewRouted(routing=honest)))
    run.finish()
    assert "routing_contradicts" in await codes(run, tmp_path, signer, private_key)
