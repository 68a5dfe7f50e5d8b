"""Changes that the diff gate refuses and their maker may take back, and those for which there is no further round."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.reports import GateReport, Violation
from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.evidence.projection.history import ended_history, evidence_records
from gatewright.evidence.verification.consistency.recomputed.tasks import check_tasks
from gatewright.evidence.verification.consistency.replayed_run import replay_history
from gatewright.evidence.verification.consistency.rounds_and_choice import check_rounds
from gatewright.prompts.library import PromptLibrary
from gatewright.rules.rounds import repairable
from gatewright.run.state import Run
from gatewright.services.worker.agents.brief import brief
from gatewright.services.worker.agents.earlier import earlier_round
from gatewright.view.revisions import trail_of
from tests.attacks.people import Files
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import MakeRepository

AGENT = Executor(kind="agent", agent="codex")
COMMAND = Executor(kind="command", commands=("python a.py", "python b.py", "python c.py"))
GOOD: Files = {"README.md": b"a better text\n"}
OUTSIDE: Files = {**GOOD, "elsewhere.txt": b"x\n"}


@pytest.fixture
async def gatekeeper(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Gatekeeper]:
    async with open_gatekeeper(make_repository(), tmp_path) as opened:
        yield opened


async def begin(gatekeeper: Gatekeeper, executor: Executor = AGENT, retries: int = 2) -> Run:
    rounds = TimeoutRetry(timeout_sec=60, max_retries=retries, retry_backoff_sec=0)
    contract = contract_on(gatekeeper.repository, allowed_paths=("README.md",), executor=executor, timeout_retry=rounds)
    await gatekeeper.submit(contract)
    return await gatekeeper.plan()


async def made(gatekeeper: Gatekeeper, files: Files) -> Run:
    run = await gatekeeper.work(gatekeeper.patch(files))
    gatekeeper.repository.git("reset", "--hard", "--quiet")
    return run


async def test_an_out_of_scope_change_gets_a_round_and_lands(gatekeeper: Gatekeeper) -> None:
    await begin(gatekeeper)
    run = await made(gatekeeper, OUTSIDE)
    assert (run.state, run.attempt, run.failure) == ("S2", 2, None)
    (task,) = run.workers()
    assert task.contract is not None
    report = codec.decode(await gatekeeper.bus.get_artifact(task.contract.evidence_links[-1]), GateReport)
    assert [(each.code, each.path) for each in report.violations] == [("path_out_of_scope", "elsewhere.txt")]
    await made(gatekeeper, GOOD)
    await gatekeeper.review()
    run = await gatekeeper.test()
    assert run.status == "SUCCESS"
    records = evidence_records((await gatekeeper.orchestrator.ledger.get(RUN)).transitions)
    telling = replay_history(ended_history(run, records), b"", {})
    assert [each.code for check in (check_rounds, check_tasks) for each in check(telling)] == []
    assert [(item.packet.source, item.state) for item in trail_of(run, records).items] == [("diff", "cured")]
    forged = replace(run, attempt=1)
    report = (await gatekeeper.reports("diff"))[0]
    assert repairable(forged, report)
    for code in ("secret_found", "git_path", "symlink_refused", "name_unreadable"):
        more = Violation(code=code, rule="r", detail="")
        assert not repairable(forged, replace(report, violations=(*report.violations, more)))


async def test_the_brief_quotes_the_refusal_as_data(gatekeeper: Gatekeeper) -> None:
    await begin(gatekeeper)
    (task,) = (await made(gatekeeper, OUTSIDE)).workers()
    assert task.contract is not None

    class Store:
        async def get(self, uri: str) -> bytes:
            return await gatekeeper.bus.get_artifact(uri)

    earlier = await earlier_round(task.contract, Store())  # type: ignore[arg-type] # it is only read from
    assert earlier is not None
    prompt = brief(PromptLibrary(), task.contract, earlier).in_one
    _, _, fenced = prompt.partition('name="why the previous change was refused">>>')
    assert "- elsewhere.txt: outside the contract's paths (path_out_of_scope)" in fenced
    assert "The previous change was refused. Bring the change back within the contract." in prompt


async def test_a_protected_path_gets_a_round(gatekeeper: Gatekeeper) -> None:
    await begin(gatekeeper)
    run = await made(gatekeeper, {**GOOD, ".github/workflows/a.yml": b"on: push\n"})
    assert (run.state, run.attempt) == ("S2", 2)


@pytest.mark.parametrize(
    "evasion",
    [
        {"README.md": b"key = 'ghp_" + b"0123456789abcdefghijABCDEFGHIJ012345'\n", "elsewhere.txt": b"x\n"},
        {**GOOD, "elsewhere.txt": b"x\n", "README.MD": b"x\n"},
        {**GOOD, "elsewhere\u202etxt": b"x\n"},
    ],
)
async def test_a_secret_or_an_evasion_gets_no_round(gatekeeper: Gatekeeper, evasion: Files) -> None:
    await begin(gatekeeper)
    run = await made(gatekeeper, evasion)
    assert (run.status, run.attempt) == ("FAILED", 1)
    assert gatekeeper.nothing_landed()


async def test_rounds_for_the_diff_gate_are_bounded(gatekeeper: Gatekeeper) -> None:
    await begin(gatekeeper, retries=5)
    for _ in range(3):
        run = await made(gatekeeper, OUTSIDE)
    assert (run.status, run.attempt) == ("FAILED", 3)
    assert run.failure is not None
    assert run.failure.code == "path_out_of_scope"


@pytest.mark.parametrize(("executor", "retries"), [(COMMAND, 2), (AGENT, 0)])
async def test_who_cannot_be_asked_anew_gets_no_round(gatekeeper: Gatekeeper, executor: Executor, retries: int) -> None:
    await begin(gatekeeper, executor, retries)
    run = await made(gatekeeper, OUTSIDE)
    assert (run.status, run.attempt) == ("FAILED", 1)
