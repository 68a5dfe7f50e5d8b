"""Transfer manifests and leaves in a bundle: forged, altered, missing, also by one who has the gatekeeper's key."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.transfers import TransferDestination, TransferLeave, TransferManifest, TransferSource
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger import events as e
from gatewright.ledger.run import Run
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.transfers import FILE, LATER
from tests.evidence.approved_runs import Forgery, as_it_is
from tests.evidence.routed_runs import RoutedRun
from tests.evidence.tampering import CODES, KINDS, read_events, write_events
from tests.evidence.test_approvals import on

CODE = "transfer_contradicts"
OTHER = Artifact(name="notes", uri=f"artifact:sha256:{'d' * 64}", sha256="d" * 64)
PLACE = TransferDestination(provider="openai", endpoint="https://api.openai.com:443", model="gpt-5.1-codex")
LEAVE = TransferLeave(
    run_id="run-00112233445566778899", role="worker", manifest_sha256="a" * 64, destinations=(PLACE,), most_bytes=10
)


def manifest_for(run: Run) -> TransferManifest:
    """An honest one for the worker, of low risk."""
    assert run.contract is not None
    spec = run.contract.inputs.spec.encode()
    sources = [TransferSource(kind="document", name="spec", digest=hashlib.sha256(spec).hexdigest(), bytes=len(spec))]
    sources += [
        TransferSource(kind="document", name=each.name, digest=each.sha256, bytes=9)
        for each in visible(run.contract).inputs.artifacts
    ]
    sources.append(TransferSource(kind="tree", name="baseline", digest=run.accepted.baseline_tree, bytes=100))
    return TransferManifest(
        run_id=run.run_id,
        role="worker",
        purpose="make the change",
        destinations=(PLACE,),
        sources=tuple(sources),
        bytes=sum(each.bytes for each in sources),
        later=LATER["worker"],
        most_bytes=5000,
        secrets=0,
        unscanned_bytes=0,
        protected=(),
        low_risk_bytes=4000,
        mode="auto_low_risk",
        risk="low",
        phrase="",
        preview=(),
    )


@dataclass
class SendingRun(RoutedRun):
    """A run whose worker asked a model: ``told`` is how many bytes it said that it had sent."""

    told: int = 4999

    def step(self, *events: e.Event) -> None:
        written = []
        for event in events:
            payload = event.payload
            if isinstance(payload, e.RunAccepted):
                payload = replace(payload, policies=payload.policies | {FILE: "b" * 64})
            elif isinstance(payload, e.PlanAccepted):
                written.append(e.Event(e.TransferPlanned(manifest=manifest_for(self.run)), role="gatekeeper"))
            elif isinstance(payload, e.TaskFinished):
                usage = Usage(tokens=1, cost_usd=0.0, iterations=1, sent_bytes=self.told, delivery="1.1")
                payload = replace(payload, result=replace(payload.result, usage=usage))
                written.append(e.Event(e.UsageReported(task_id=payload.result.task_id, usage=usage), role="worker"))
            written.append(e.Event(payload, event.level, event.task_id, event.attempt, event.role))
        super().step(*written)


def make_sending(forgery: Forgery = as_it_is, told: int = 4999) -> SendingRun:
    run = SendingRun(forgery=forgery, rules=None, told=told)
    run.up_to_the_tests()
    run.finish()
    return run


async def sealed(run: SendingRun, folder: Path, signer: Signer) -> Path:
    return Path((await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


async def codes(run: SendingRun, folder: Path, signer: Signer, key: PrivateKey) -> set[str]:
    return {each.code for each in verify(await sealed(run, folder, signer), [key.public]).findings}


def planned(**changes: object) -> Forgery:
    def changed(payload: e.Payload) -> e.Payload:
        assert isinstance(payload, e.TransferPlanned)
        return replace(payload, manifest=replace(payload.manifest, **changes))

    return on(e.TransferPlanned, changed)


def with_a_leave(payload: e.Payload) -> e.Payload:
    assert isinstance(payload, e.PlanAccepted)
    shards = tuple(replace(each, transfer=LEAVE) for each in payload.plan.contracts)
    return replace(payload, plan=replace(payload.plan, contracts=shards))


def without_policy(payload: e.Payload) -> e.Payload:
    assert isinstance(payload, e.RunAccepted)
    return replace(payload, policies={name: digest for name, digest in payload.policies.items() if name != FILE})


def given_more(payload: e.Payload) -> e.Payload:
    assert isinstance(payload, e.PlanAccepted)
    shards = tuple(
        replace(each, inputs=replace(each.inputs, artifacts=(*each.inputs.artifacts, OTHER))) for each in payload.plan.contracts
    )
    return replace(payload, plan=replace(payload.plan, contracts=shards))


FORGERIES: dict[str, Forgery] = {
    "of another run": planned(run_id="run-ffffffffffffffffffff"),
    "about another tree": planned(sources=(TransferSource(kind="tree", name="baseline", digest="f" * 40, bytes=1),), bytes=1),
    "that leaves the order out": planned(
        sources=(TransferSource(kind="tree", name="baseline", digest="2" * 40, bytes=1),), bytes=1
    ),
    "that counts less than its sources": planned(bytes=1),
    "whose secrets are of low risk": planned(secrets=1),
    "whose protected class is of low risk": planned(protected=("dependencies",)),
    "of high risk that nobody was asked about": planned(secrets=1, risk="high"),
    "that a person had to approve, and nobody was asked": planned(mode="manual"),
    "that opens what the run makes later of everything": planned(later=("r",)),
    "that is missing, and bytes were sent": on(e.TransferPlanned, lambda _: None),
    "of a policy that had none": on(e.RunAccepted, without_policy),
    "whose bound was passed": planned(most_bytes=4998),
    "beside a leave that came with the plan": on(e.PlanAccepted, with_a_leave),
    "that does not name what the task was given": on(e.PlanAccepted, given_more),
}


async def test_an_honest_manifest_verifies(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(make_sending(), tmp_path, signer)
    assert verify(bundle, [private_key.public]).findings == ()
    (event,) = (each for each in read_events(bundle) if each.event_type == "transfer_planned")
    assert event.payload["manifest"]["destinations"][0]["endpoint"] == PLACE.endpoint


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_manifest_can_be_made_up(
    forgery: Forgery, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    found = await codes(make_sending(forgery), tmp_path, signer, private_key)
    assert CODE in found


@pytest.mark.parametrize("kind", KINDS)
async def test_the_events_that_tell_of_a_transfer_cannot_be_changed(
    kind: str, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await sealed(make_sending(), tmp_path / "runs", signer)
    copy = Path(shutil.copytree(bundle, tmp_path / "copy" / bundle.name))
    assert KINDS[kind](copy, layout.EVENTS)
    found = {each.code for each in verify(copy, [private_key.public]).findings if each.path == layout.EVENTS}
    assert found & CODES[kind]


async def test_a_manifest_that_was_altered_or_taken_out_without_the_key_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await sealed(make_sending(), tmp_path / "runs", signer)
    for name in ("altered", "missing"):
        copy = Path(shutil.copytree(bundle, tmp_path / name / bundle.name))
        told = read_events(copy)
        (at,) = (n for n, each in enumerate(told) if each.event_type == "transfer_planned")
        if name == "altered":
            manifest = told[at].payload["manifest"] | {"destinations": [{"provider": "e", "endpoint": "e", "model": "e"}]}
            told[at] = replace(told[at], payload={"manifest": manifest})
        else:
            del told[at]
        write_events(copy, told, chained=True)
        assert verify(copy, [private_key.public]).findings, name
