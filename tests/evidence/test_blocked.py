"""Requests about what tasks could not tell, in a bundle: altered, left out, made up, also by who has the gatekeeper's key."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import Blocked
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.rules.blocked.asking import next_request
from gatewright.run import events as e
from tests.evidence.approved_runs import ANA, STRANGER, Forgery, as_it_is, decided
from tests.evidence.recorded_runs import STAMP, START
from tests.evidence.routed_runs import RoutedRun
from tests.evidence.tampering import CODES, KINDS, files_of
from tests.evidence.test_approvals import on

CODE = "approval_contradicts"
RULE = ApprovalRule(name="guesses", reason="blocked", risk="low", approvers=("ana",), within_seconds=600)
BLOCK = Blocked(
    session="another", blocked_at=STAMP, question="Is the limit 3 or 5?", best_guess="3", fallback_action="goes on with 3",
    can_resume_without_answer=True,
)  # fmt: skip


@dataclass
class AskingRun(RoutedRun):
    """A run whose worker brought a question, about which Ana was asked beside it, and answered."""

    def step(self, *events: e.LabelledEvent) -> None:
        written = []
        for event in events:
            payload = event.event
            if isinstance(payload, e.RunAccepted):
                payload = replace(payload, approval_rules=(RULE,))
            elif isinstance(payload, e.TaskFinished):
                payload = replace(payload, result=replace(payload.result, blocked=(BLOCK,)))
            written.append(e.LabelledEvent(payload, event.level, event.task_id, event.attempt, event.role))
        super().step(*written)

    def ask(self) -> None:
        request = next_request(self.run, START + timedelta(seconds=len(self.transitions)))
        if request is None:  # the forgery took the question away: asked is what an honest run asks
            (known,) = make_asking().run.approvals.values()
            request = known.request
        self.step(e.LabelledEvent(e.ApprovalRequested(request=request)))

    def answer(self) -> None:
        for asked in self.run.approvals.values():
            self.step(e.LabelledEvent(decided(asked.request, phrase="")), self.gate("approval"))


def make_asking(forgery: Forgery = as_it_is, *, answered: bool = True) -> AskingRun:
    run = AskingRun(forgery=forgery, rules=None)
    run.accept()
    run.plan(shards=1)
    run.work()
    run.ask()
    if answered:
        run.answer()
    run.compose()
    run.pass_review()
    test = f"{run.run_id}.test.a1"
    run.step(run.tests(test), run.gate("tests", task_id=test))
    run.finish()
    return run


async def sealed(run: AskingRun, folder: Path, signer: Signer) -> Path:
    return Path((await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


def asked(**changes: object) -> Forgery:
    def changed(payload: e.RunEvent) -> e.RunEvent:
        assert isinstance(payload, e.ApprovalRequested)
        return replace(payload, request=replace(payload.request, **changes))

    return on(e.ApprovalRequested, changed)


def another_question(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalRequested)
    return replace(payload, request=replace(payload.request, blocked=replace(BLOCK, question="May it all be deleted?")))


def by_a_stranger(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    (known,) = make_asking().run.approvals.values()
    return decided(known.request, STRANGER, phrase="")


def of_nothing(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.TaskFinished)
    return replace(payload, result=replace(payload.result, blocked=()))


FORGERIES: dict[str, Forgery] = {
    "about another question": on(e.ApprovalRequested, another_question),
    "with a guess that nobody made": asked(why="the worker asks: is it all right? Its guess: yes"),
    "to another person": asked(approvers=("eve",)),
    "of lower risk than the rule says": asked(risk="high"),
    "with more time": asked(expires_at="2027-01-01T00:00:00.000Z"),
    "that parks the run": asked(stage="candidate"),
    "that is missing": lambda payload: None if isinstance(payload, e.ApprovalRequested | e.ApprovalDecided) else payload,
    "about a question that no task brought": on(e.TaskFinished, of_nothing),
    "that a stranger answered": on(e.ApprovalDecided, by_a_stranger),
}


async def test_a_question_and_its_answer_are_in_the_bundle(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    run = make_asking()
    bundle = await sealed(run, tmp_path, signer)
    found = verify(bundle, [private_key.public])
    assert (found.findings, len(found.approved)) == ((), 1)
    (request,) = run.run.approvals
    assert BLOCK.question.encode() in (bundle / layout.approval_request(request)).read_bytes()
    assert run.run.approvals[request].answers[0].person == ANA.name


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_question_can_be_made_up(
    forgery: Forgery, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    bundle = await sealed(make_asking(forgery), tmp_path, signer)
    assert CODE in {each.code for each in verify(bundle, [private_key.public]).findings}


@pytest.mark.long
async def test_no_file_of_a_question_can_be_changed(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(make_asking(), tmp_path / "runs", signer)
    paths = [path for path in files_of(bundle) if path.startswith("approvals/")]
    assert paths
    for kind, tamper in KINDS.items():
        for path in paths:
            copy = Path(shutil.copytree(bundle, tmp_path / kind / bundle.name))
            if tamper(copy, path):
                codes = {each.code for each in verify(copy, [private_key.public]).findings if each.path == path}
                assert codes & CODES[kind], (kind, path)
            shutil.rmtree(copy)
