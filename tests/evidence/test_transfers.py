"""Transfer manifests and leaves in a bundle: forged, altered, missing, also by one who has the gatekeeper's key."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.consultation import Consultation
from gatewright.contracts.transfers import TransferDestination, TransferLeave, TransferManifest, TransferSource
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.models.recorded_transfers import broken_by_calls
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.transfers import FILE, LATER, leave_for
from gatewright.run import events as e
from gatewright.run.state import Run
from tests.evidence.approved_runs import Forgery, as_it_is
from tests.evidence.recorded_calls import TOLD, UNCOVERED, Recorded, calls_by, without_records
from tests.evidence.recorded_runs import under_policies
from tests.evidence.routed_runs import RoutedRun
from tests.evidence.tampering import CODES, KINDS, read_events, write_events
from tests.evidence.test_approvals import on

CODE = "transfer_contradicts"
OTHER = Artifact(name="notes", uri=f"artifact:sha256:{'d' * 64}", sha256="d" * 64)
PLACE = TransferDestination(provider="openai", endpoint="https://api.openai.com:443", model="gpt-5.5")
LEAVE = TransferLeave(
    run_id="run-a31d0eeaa8061bb92728", role="worker", manifest_sha256="a" * 64, destinations=(PLACE,), most_bytes=10
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

    told: int = TOLD
    calls: Recorded = calls_by

    def step(self, *events: e.LabelledEvent) -> None:
        written = []
        for event in events:
            payload = event.event
            if isinstance(payload, e.RunAccepted):
                payload = under_policies(payload, payload.policies | {FILE: "b" * 64})
            elif isinstance(payload, e.PlanAccepted):
                written.append(e.LabelledEvent(e.TransferPlanned(manifest=manifest_for(self.run)), role="gatekeeper"))
            elif isinstance(payload, e.TaskFinished):
                usage = Usage(tokens=1, cost_usd=0.0, iterations=1, sent_bytes=self.told, delivery="1.1")
                kept = self._kept(payload.result.artifacts)
                payload = replace(payload, result=replace(payload.result, usage=usage, artifacts=kept))
                written.append(e.LabelledEvent(e.UsageReported(task_id=payload.result.task_id, usage=usage), role="worker"))
            written.append(e.LabelledEvent(payload, event.level, event.task_id, event.attempt, event.role))
        super().step(*written)

    def _kept(self, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        """What the worker kept, and the records of its calls."""
        records = self.calls(manifest_for(self.run))
        if records is None:
            return artifacts
        made = Artifact(name="model_calls", uri=self.store.put(records), sha256=hashlib.sha256(records).hexdigest())
        return (*artifacts, made)


def make_sending(forgery: Forgery = as_it_is, told: int = TOLD, calls: Recorded = calls_by) -> SendingRun:
    run = SendingRun(forgery=forgery, rules=None, told=told, calls=calls)
    run.up_to_the_tests()
    run.finish()
    return run


async def sealed(run: SendingRun, folder: Path, signer: Signer) -> Path:
    return Path((await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


async def codes(run: SendingRun, folder: Path, signer: Signer, key: PrivateKey) -> set[str]:
    return {each.code for each in verify(await sealed(run, folder, signer), [key.public]).findings}


def planned(**changes: object) -> Forgery:
    def changed(payload: e.RunEvent) -> e.RunEvent:
        assert isinstance(payload, e.TransferPlanned)
        return replace(payload, manifest=replace(payload.manifest, **changes))

    return on(e.TransferPlanned, changed)


def with_a_leave(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.PlanAccepted)
    shards = tuple(replace(each, transfer=LEAVE) for each in payload.plan.contracts)
    return replace(payload, plan=replace(payload.plan, contracts=shards))


def without_policy(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.RunAccepted)
    return under_policies(payload, {name: digest for name, digest in payload.policies.items() if name != FILE})


def given_more(payload: e.RunEvent) -> e.RunEvent:
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


async def test_sending_beyond_the_bound_is_found_without_a_landing(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    run = SendingRun(forgery=planned(most_bytes=4998), rules=None, told=TOLD, calls=partial(calls_by, bytes=10))
    run.up_to_the_tests()
    abort = e.AbortRequested(reason="enough", requested_by="ana", publisher="default")
    run.end("ABORTED", "aborted", "enough", e.LabelledEvent(abort))
    found = verify(await sealed(run, tmp_path, signer), [private_key.public]).findings
    assert any(each.code == CODE and "4998 may be sent" in each.message for each in found)


@pytest.mark.parametrize("calls", UNCOVERED.values(), ids=UNCOVERED)
def test_no_manifest_covers_a_call_to_elsewhere_of_more_or_unsaid(calls: Recorded) -> None:
    run = make_sending()
    usage = Usage(tokens=0, cost_usd=0.0, iterations=0, sent_bytes=TOLD, delivery="1.1")
    leave = leave_for(run.run, "worker")
    assert broken_by_calls("worker", leave, calls_by(run.run.transfers[0]), usage) == ()
    assert broken_by_calls("worker", leave, calls(run.run.transfers[0]), usage)


@pytest.mark.parametrize("calls", [UNCOVERED["another manifest"], without_records], ids=["another manifest", "no records"])
async def test_a_recorded_call_that_no_approved_manifest_covers_is_found(
    calls: Recorded, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    """In a run that a gatekeeper let pass which did not look."""
    bundle = await sealed(make_sending(calls=calls), tmp_path, signer)
    assert {each.code for each in verify(bundle, [private_key.public]).findings} == {CODE}


async def test_what_a_reviewer_asked_a_model_is_held_against_its_manifest_too(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    """The reviewer has no manifest here: to a host of the operator's own it may send, and to no other."""
    for number, own in enumerate((True, False)):
        run = SendingRun(rules=None)
        run.forgery = partial(consulted, run, own)
        run.up_to_the_tests()
        run.finish()
        found = await codes(run, tmp_path / str(number), signer, private_key)
        assert found == (set() if own else {CODE})


def consulted(run: SendingRun, own: bool, payload: e.RunEvent) -> e.RunEvent:
    if not isinstance(payload, e.ReviewReceived):
        return payload
    records = calls_by(manifest_for(run.run), internal=own, manifest_sha256=None)
    kept = Artifact(name="calls.jsonl", uri=run.store.put(records), sha256=hashlib.sha256(records).hexdigest())
    asked = Consultation(
        model="m",
        answer_schema="review_opinion.v1",
        answer_schema_sha256="a" * 64,
        prompts={},
        directive="d",
        asked=1,
        tokens=1,
        cost_usd=0.0,
        artifacts=(kept,),
    )
    return replace(payload, report=replace(payload.report, consultation=asked))


@pytest.mark.parametrize("kind", KINDS)
async def test_the_events_of_a_transfer_cannot_be_changed(
    kind: str, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await sealed(make_sending(), tmp_path / "runs", signer)
    copy = Path(shutil.copytree(bundle, tmp_path / "copy" / bundle.name))
    assert KINDS[kind](copy, layout.EVENTS)
    found = {each.code for each in verify(copy, [private_key.public]).findings if each.path == layout.EVENTS}
    assert found & CODES[kind]


async def test_an_altered_or_removed_manifest_is_found(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
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
