"""What goes to providers of models waits for a person, who approves a manifest; a task is given leave for just that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.cli.hosts.server import approval_entry
from gatewright.app.cli.people.agent_server import OrderedDecision, signing_summary
from gatewright.app.cli.people.inbox import page
from gatewright.app.cli.people.notices import digest
from gatewright.app.console.drawing import make_templates
from gatewright.artifacts import inline_uri
from gatewright.contracts import ApprovalRequest, TaskContract, UsageReport
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.contracts.records import CommandRef
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.transfers import TransferDestination, TransferLeave
from gatewright.contracts.vocabulary import Artifact, Executor, Scope, TimeoutRetry, Usage
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.approvals import decision_on, pending, request_digest
from gatewright.rules.contracts import with_role
from gatewright.rules.transfers import (
    LATER,
    leave_for,
    manifest_digest,
    task_leave,
    transfer_lines,
)
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import Continue, UsageReceived
from gatewright.services.gatekeeper.dispatch.dispatcher import task_document
from gatewright.services.gatekeeper.orchestrator import ACCOUNT_PATIENCE
from gatewright.view.run_view import RunView
from tests.attacks.people import LANDING, Inbox, inbox_of, policies_with, signed
from tests.attacks.test_review_runs import review_of
from tests.attacks.whole_gatekeeper import RUN, make_plan, make_result, make_review, open_gatekeeper
from tests.evidence.recorded_calls import TOLD, UNCOVERED, Recorded, calls_by, without_records
from tests.gatekeeper.gates.test_hidden_acceptance import HIDDEN, SEEN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

FILES = {"README.md": b"text\n", "requirements.txt": b"\n", "src/a.py": b"a = 1\n"}
ASKS: dict[str, object] = LANDING | {"name": "sending", "reason": "transfer"}
MODEL = Executor(kind="model", model="gpt-5.5")
#: In pieces, so that this file holds none.
SECRET = b"-----BEGIN RSA PRIVATE " + b"KEY-----\n" + b"MIIEowIBAAKCAQEA7bq3Jx" * 9 + b"\n-----END RSA PRIVATE " + b"KEY-----\n"


@asynccontextmanager
async def open_sending(
    repository: Repository, folder: Path, mode: str, *rules: dict[str, object], **policy: object
) -> AsyncIterator[Inbox]:
    policies = policies_with(folder / "policies", *rules)
    (policies / "transfers.json").write_text(json.dumps({"version": "1", "externalTransfers": mode} | policy))
    async with open_gatekeeper(repository, folder, policies=policies, clock=(clock := HandClock())) as gatekeeper:
        yield inbox_of(gatekeeper, clock)


def sent_to(run: Run, role: str) -> TransferLeave | None:
    """The leave in the task as it goes over the bus."""
    task = next(each for each in run.tasks.values() if each.role == role)
    document = task_document(run, CommandRef(role=task.role, pool=task.pool, task_id=task.task_id))
    assert isinstance(document, TaskContract)
    return document.transfer


async def without_account(inbox: Inbox) -> None:
    """Let the time pass for which the seal waits for what interrupted work has used."""
    assert isinstance(inbox.clock, HandClock)
    inbox.clock.seconds += ACCOUNT_PATIENCE + 1
    await inbox.gatekeeper.orchestrator.advance(RUN, Continue("later"))


def standing_of(request: ApprovalRequest) -> ApprovalStanding:
    return ApprovalStanding(request=request, request_sha256=request_digest(request), status="pending")


def ordered(request: ApprovalRequest) -> OrderedDecision:
    return OrderedDecision(request, decision_on(request, verdict="approve", person="ana", decided_at=request.created_at))


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


async def test_a_run_waits_for_permission_before_a_task_sends_anything(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "manual", ASKS) as inbox:
        run = await inbox.submit(executor=MODEL)
        assert run.state == "AWAITING_APPROVAL"
        assert not any(task.status == "RUNNING" for task in run.tasks.values() if task.role == "worker")
        manifest = run.transfers[0]
        assert manifest.destinations[0].endpoint == "https://api.openai.com:443"
        assert manifest_digest(manifest) in pending(run)[0].request.why
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.gatekeeper.run()
        leave = sent_to(run, "worker")
        assert leave is not None
        assert (leave.manifest_sha256, leave.run_id) == (manifest_digest(manifest), run.run_id)
        assert leave.destinations == manifest.destinations
        assert (await inbox.work()).status == "SUCCESS"
        found = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
        assert found.findings == ()
        assert len(found.approved) == 1


@pytest.mark.parametrize("mode", ["manual", "auto_low_risk"])
async def test_a_review_of_commits_sends_by_its_manifest(repository: Repository, tmp_path: Path, mode: str) -> None:
    async with open_sending(repository, tmp_path, mode, ASKS) as inbox:
        run = await inbox.gatekeeper.submit(review_of(inbox, {"README.md": b"more\n"}))
        assert [(each.role, each.purpose) for each in run.transfers] == [("reviewer", "review the commits of the order")]
        assert run.parked == (mode == "manual")
        if run.parked:
            assert (run.parked_from, run.candidate, [*run.tasks]) == ("S1", None, [])
            await inbox.decide(signed(await inbox.said()))
            run = await inbox.gatekeeper.run()
        leave = sent_to(run, "reviewer")
        assert leave is not None
        assert leave.manifest_sha256 == manifest_digest(run.transfers[0])
        assert (await inbox.gatekeeper.review()).status == "SUCCESS"
    assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_search_sends_documents_and_findings_alone(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "manual", ASKS) as inbox:
        run = await inbox.gatekeeper.submit(search_of(inbox))
        assert [each.role for each in run.transfers] == ["worker", "reviewer"]
        for manifest in run.transfers:
            assert {(each.kind, each.name) for each in manifest.sources} == {
                ("document", "spec"),
                ("document", "document:a.txt"),
            }
        assert (run.state, run.parked_from) == ("AWAITING_APPROVAL", "S1")
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.gatekeeper.run()
        assert sent_to(run, "worker") is not None
        found = tuple(
            Artifact(name=name, uri="u", sha256="9" * 64) for name in ("evidence_bundle", "source:s1", "candidate.patch")
        )
        assert leave_for(run, "reviewer", found) is not None
        assert leave_for(run, "worker", found) is None


@pytest.mark.parametrize("kind", ["review", "search"])
async def test_a_run_without_a_plan_ends_where_no_rule_asks(repository: Repository, tmp_path: Path, kind: str) -> None:
    async with open_sending(repository, tmp_path, "manual") as inbox:
        order = search_of(inbox) if kind == "search" else review_of(inbox, {"README.md": b"more\n"})
        run = await inbox.gatekeeper.submit(order)
        assert run.failure is not None
        assert (run.failure.code, run.tasks) == ("transfer_not_approved", {})


def search_of(inbox: Inbox) -> TaskContract:
    """The order of a search by a model in one document."""
    document = Artifact(name="document:a.txt", uri=inline_uri(b"text"), sha256=hashlib.sha256(b"text").hexdigest())
    order = inbox.contract(task_type="SEARCH", executor=MODEL, allowed_paths=(), acceptance_tests=(), required_outputs=())
    nowhere = RepositoryField(url=inbox.gatekeeper.repository.url, landing="none")
    return with_role(replace(order, repository=nowhere, inputs=Inputs(spec="How many?", artifacts=(document,))))


async def test_who_approves_sees_provider_sources_bound_and_preview(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "manual", ASKS, most_bytes=5000) as inbox:
        run = await inbox.submit(executor=MODEL)
        request = await inbox.asked()
        worker, reviewer = request.transfers
        manifest = run.transfers[0]
        assert (worker.manifest_sha256, worker.most_bytes) == (manifest_digest(manifest), 5000)
        assert [(each.provider, each.model) for each in worker.destinations] == [("openai", "gpt-5.5")]
        assert [(each.provider, each.model) for each in reviewer.destinations] == [("anthropic", "claude-sonnet-4-5")]
        assert {each.kind for each in worker.sources} == {"tree", "document"}
        assert worker.preview[0] == "README.md (5 bytes)"
        lines = list(transfer_lines(request.transfers))
        assert "the worker sends at most 5,000 bytes in all, to make the change (low risk)" in lines
        assert "  to openai: gpt-5.5 at https://api.openai.com:443" in lines
        assert "at most 5,000 bytes to openai (the model gpt-5.5)" in request.why
        for place in (page(standing_of(request)), signing_summary(ordered(request), "ana")):
            assert all(any(line in each for each in place) for line in lines)
        drawn = make_templates().get_template("decide.html").module.sends(request)  # type: ignore[attr-defined] # a macro
        assert all(line in unescape(drawn) for line in lines)
        (asked,) = pending(run)
        entry = approval_entry(RunView(run), asked)
        assert [each["most_bytes"] for each in entry["transfers"]] == [5000, 5000]
        assert digest([standing_of(request)])["requests"][0]["transfers"] == lines
        await inbox.decide(signed(await inbox.said()))
        leave = sent_to(await inbox.gatekeeper.run(), "worker")
        assert leave is not None
        assert (leave.most_bytes, leave.manifest_sha256) == (worker.most_bytes, worker.manifest_sha256)


@pytest.mark.parametrize("agent", [None, "codex", "claude"])
async def test_only_models_that_an_agent_can_ask_are_listed(repository: Repository, tmp_path: Path, agent: str | None) -> None:
    async with open_sending(repository, tmp_path, "manual", ASKS) as inbox:
        await inbox.submit(executor=Executor(kind="agent", agent=agent))
        worker = (await inbox.asked()).transfers[0]
        found = {each.provider for each in worker.destinations}
        assert found == {"codex": {"openai"}, "claude": {"anthropic"}}.get(agent or "", found)
        assert len(worker.destinations) <= 3


async def test_low_risk_passes_by_rule_and_is_written_down(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        run = await inbox.submit(executor=MODEL)
        assert (run.state, run.approvals) == ("S2", {})
        assert [(each.role, each.risk, each.mode) for each in run.transfers] == [
            ("worker", "low", "auto_low_risk"),
            ("reviewer", "low", "auto_low_risk"),
        ]


@pytest.mark.parametrize("why", ["secret", "protected", "size", "unscanned"])
async def test_what_is_not_of_low_risk_never_passes_by_rule(make_repository: MakeRepository, tmp_path: Path, why: str) -> None:
    repository = make_repository(files=FILES | ({"key.pem": SECRET} if why == "secret" else {}))
    limits = {"size": {"low_risk_bytes": 3}, "unscanned": {"scan_bytes": 3}}.get(why, {})
    opened: dict[str, object] = {}
    if why == "protected":
        opened = {"allowed_paths": ("requirements.txt",), "scope": Scope(allow_dependency_change=True)}
    async with open_sending(repository, tmp_path, "auto_low_risk", ASKS, **limits) as inbox:
        run = await inbox.submit(executor=MODEL, **opened)
        assert run.state == "AWAITING_APPROVAL"
        assert run.transfers[0].risk == ("high" if why in {"secret", "protected"} else "medium")
        assert "BEGIN" not in pending(run)[0].request.why


async def test_a_run_ends_where_approval_is_required_without_a_rule(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "manual") as inbox:
        run = await inbox.submit(executor=MODEL)
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")


async def test_a_leave_that_a_publisher_writes_is_none(repository: Repository, tmp_path: Path) -> None:
    forged = TransferLeave(
        run_id="run-x",
        role="worker",
        manifest_sha256="a" * 64,
        destinations=(TransferDestination(provider="evil", endpoint="https://evil.example", model="m"),),
        most_bytes=9,
    )
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        run = await inbox.submit(executor=MODEL, transfer=forged)
        assert run.contract is not None
        assert run.contract.transfer is None
        leave = sent_to(run, "worker")
        assert leave is not None
        assert "evil" not in {each.provider for each in leave.destinations}


async def test_what_stays_with_the_operator_is_not_asked_about(repository: Repository, tmp_path: Path) -> None:
    own = ["api.openai.com", "api.anthropic.com", "*.googleapis.com"]
    async with open_sending(repository, tmp_path, "manual", internal=own) as inbox:
        run = await inbox.submit(executor=MODEL)
        assert run.state == "S2"
        assert all(each.internal for manifest in run.transfers for each in manifest.destinations)


def order_with(*artifacts: Artifact) -> Inputs:
    return Inputs(spec="change the readme", artifacts=artifacts)


def document(name: str, data: bytes) -> Artifact:
    return Artifact(name=name, uri=inline_uri(data), sha256=hashlib.sha256(data).hexdigest())


async def test_documents_of_the_order_are_counted_and_looked_at_like_the_tree(repository: Repository, tmp_path: Path) -> None:
    """What is told of earlier runs is one of them."""
    notes = document("notes", b"twelve bytes")
    async with open_sending(repository, tmp_path / "plain", "auto_low_risk") as inbox:
        (manifest, _) = (await inbox.submit(executor=MODEL, inputs=order_with(notes))).transfers
        named = {each.name: each.bytes for each in manifest.sources if each.kind == "document"}
        assert named == {"spec": len("change the readme"), "notes": 12}
        assert (manifest.risk, manifest.unscanned_bytes) == ("low", 0)
        assert manifest.bytes == sum(each.bytes for each in manifest.sources)
    secret = document("notes", SECRET)
    async with open_sending(repository, tmp_path / "secret", "auto_low_risk", ASKS) as inbox:
        run = await inbox.submit(executor=MODEL, inputs=order_with(secret))
        assert (run.state, run.transfers[0].risk) == ("AWAITING_APPROVAL", "high")


async def test_what_only_the_test_runner_is_sent_is_no_source(repository: Repository, tmp_path: Path) -> None:
    hidden = document("hidden:check.py", SECRET)
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        order = inbox.contract(executor=MODEL, inputs=order_with(hidden), acceptance_tests=(SEEN, HIDDEN))
        run = await inbox.gatekeeper.submit(order)
        assert run.contract is not None
        run = await inbox.gatekeeper.answer("techlead", make_plan(replace(run, contract=visible(run.contract))))
        assert [each.name for each in run.transfers[0].sources] == ["spec", "baseline"]
        assert run.transfers[0].risk == "low"


async def test_a_task_may_send_only_what_its_run_has_made(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        run = await inbox.submit(executor=MODEL)
        made = Artifact(name="failed.test_report.a1", uri=f"artifact:sha256:{'b' * 64}", sha256="b" * 64)
        assert leave_for(run, "worker", (made,)) is not None
        assert leave_for(run, "reviewer", (made,)) is None
        for name in ("notes", "candidate.patch", "the failed.patch.a1"):
            assert leave_for(run, "worker", (replace(made, name=name),)) is None
        run = await inbox.gatekeeper.work(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
        leave = sent_to(run, "reviewer")
        assert leave is not None
        assert (leave.role, run.transfers[1].later) == ("reviewer", LATER["reviewer"])


async def used(inbox: Inbox, delivery: str, sent: int) -> Run:
    """A worker's report that one delivery of its task has sent so many bytes."""
    run = await inbox.run()
    task = next(each for each in run.tasks.values() if each.role == "worker")
    usage = Usage(tokens=0, cost_usd=0.0, iterations=0, sent_bytes=sent, delivery=delivery)
    report = UsageReport(run_id=run.run_id, task_id=task.task_id, usage=usage)
    await inbox.gatekeeper.orchestrator.advance(run.run_id, UsageReceived("worker", report, f"usage:{delivery}:{sent}"))
    return await inbox.run()


async def test_bytes_of_all_deliveries_of_a_task_are_one_sum(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk", most_bytes=1000) as inbox:
        await inbox.submit(executor=MODEL)
        run = await used(inbox, "7.1", 600)
        task = next(each for each in run.tasks.values() if each.role == "worker")
        leave = task_leave(run, task)
        assert leave is not None
        assert (run.status, leave.most_bytes) == ("RUNNING", 400)
        run = await used(inbox, "7.1", 500)
        assert (run.status, task_leave(run, run.tasks[task.task_id])) == ("RUNNING", leave), "told again, and late: no more"
        run = await used(inbox, "7.2", 401)
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")
        assert "1001 bytes" in run.failure.message
        await without_account(inbox)
        found = verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public])
        assert found.findings == ()


async def test_an_answer_that_sent_too_much_is_ignored(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk", most_bytes=1000) as inbox:
        await inbox.submit(executor=MODEL)
        run = await inbox.run()
        patch = await inbox.gatekeeper.bus.put_artifact(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
        usage = Usage(tokens=0, cost_usd=0.0, iterations=0, sent_bytes=1001, delivery="7.1")
        run = await inbox.gatekeeper.answer("worker", replace(make_result(run, patch), usage=usage))
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")
        assert inbox.gatekeeper.nothing_landed()
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def answered(inbox: Inbox, calls: Recorded) -> Run:
    """A worker's good change, with these records of its calls, and a report of ``TOLD`` bytes."""
    run = await inbox.submit(executor=MODEL)
    house = inbox.gatekeeper
    patch = await house.bus.put_artifact(house.patch({"README.md": b"another text\n"}))
    records = calls(run.transfers[0])
    kept = (
        (replace(document("model_calls", records), uri=await house.bus.put_artifact(records)),) if records is not None else ()
    )
    usage = Usage(tokens=0, cost_usd=0.0, iterations=0, sent_bytes=TOLD, delivery="7.1")
    return await house.answer("worker", replace(make_result(run, patch), usage=usage, artifacts=kept))


async def test_a_change_whose_calls_the_manifest_covers_lands(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        assert (await answered(inbox, calls_by)).state == "S3"
        await inbox.gatekeeper.review()
        assert (await inbox.gatekeeper.test()).status == "SUCCESS"
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


@pytest.mark.parametrize("calls", [UNCOVERED["another endpoint"], without_records], ids=["another endpoint", "no records"])
async def test_a_change_whose_recorded_calls_no_manifest_covers_is_refused(
    repository: Repository, tmp_path: Path, calls: Recorded
) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        run = await answered(inbox, calls)
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")
        assert inbox.gatekeeper.nothing_landed()
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_round_of_fixing_has_leave_for_what_was_refused(repository: Repository, tmp_path: Path) -> None:
    async with open_sending(repository, tmp_path, "auto_low_risk") as inbox:
        once = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
        await inbox.submit(executor=MODEL, timeout_retry=once)
        run = await inbox.gatekeeper.work(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
        run = await inbox.gatekeeper.answer("reviewer", replace(make_review(run), verdict="FAIL", summary="no"))
        task = next(each for each in run.tasks.values() if each.role == "worker" and each.attempt == 2)
        assert task.contract is not None
        assert any(each.name.startswith("failed.") for each in task.contract.inputs.artifacts)
        assert task_leave(run, task) is not None
