"""What goes to providers of models waits for a person, who approves a manifest; a task is given leave for just that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gatewright.contracts import TaskContract
from gatewright.contracts.records import CommandRef
from gatewright.contracts.transfers import TransferDestination, TransferLeave
from gatewright.contracts.vocabulary import Executor, Scope
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.run import Run
from gatewright.rules.approvals import pending
from gatewright.rules.transfers import manifest_digest
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.dispatch.dispatcher import task_document
from gatewright.services.gatekeeper.intake.approvals import ApprovalService
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.telemetry.logs import make_logger
from tests.attacks.people import LANDING, Inbox, policies_with, signed
from tests.attacks.whole_gatekeeper import RUN, open_gatekeeper
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

FILES = {"README.md": b"text\n", "requirements.txt": b"\n", "src/a.py": b"a = 1\n"}
ASKS: dict[str, object] = LANDING | {"name": "sending", "reason": "transfer"}
MODEL = Executor(kind="model", model="gpt-5.1-codex")
#: In pieces, so that this file holds none.
SECRET = b"-----BEGIN RSA PRIVATE " + b"KEY-----\n" + b"MIIEowIBAAKCAQEA7bq3Jx" * 9 + b"\n-----END RSA PRIVATE " + b"KEY-----\n"


@asynccontextmanager
async def open_sending(
    repository: Repository, folder: Path, mode: str, *rules: dict[str, object], **policy: object
) -> AsyncIterator[Inbox]:
    policies = policies_with(folder / "policies", *rules)
    (policies / "transfers.json").write_text(json.dumps({"version": "1", "externalTransfers": mode} | policy))
    async with open_gatekeeper(repository, folder, policies=policies, clock=(clock := HandClock())) as gatekeeper:
        index = RunIndex()
        index.read_to_the_end()
        yield Inbox(
            gatekeeper,
            ApprovalService(gatekeeper.orchestrator, index, ApprovalIndex(), make_logger(), SecretScanner()),
            clock,
        )


def sent_to(run: Run, role: str) -> TransferLeave | None:
    """The leave in the task as it goes over the bus."""
    task = next(each for each in run.tasks.values() if each.role == role)
    document = task_document(run, CommandRef(role=task.role, pool=task.pool, task_id=task.task_id))
    assert isinstance(document, TaskContract)
    return document.transfer


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


async def test_a_run_waits_before_the_task_that_would_send_and_is_given_leave_for_just_that(
    repository: Repository, tmp_path: Path
) -> None:
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


async def test_a_run_ends_where_a_person_had_to_approve_and_no_rule_asks(repository: Repository, tmp_path: Path) -> None:
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
