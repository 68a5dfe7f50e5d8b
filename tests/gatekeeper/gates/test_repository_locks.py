"""Runs on one repository meet in its locks and its shares, however their documents spell it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.run.evolve import fold
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.inputs import Submitted
from gatewright.services.gatekeeper.dispatch.priority import InFlight
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract
from tests.gatekeeper.dispatch.test_priority import make_run
from tests.git.repositories import MakeRepository, Repository

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    made = make_repository()
    made.git("branch", "release")
    return made


async def accept(gates: GateEngine, number: int, url: str) -> Run:
    """A run with a contract on one file of the repository at ``url``, as the intake gate pins it."""
    run_id = f"run-{number:010}"
    rollback = Rollback(strategy="worktree_drop", baseline_ref="main")
    place = RepositoryField(url=url, landing="target", target_ref="refs/heads/release")
    contract = make_contract(run_id, repository=place, rollback=rollback, allowed_paths=("src/app.py",))
    submitted = Submitted(run_id, "a" * 32, contract, "0" * 64, "submit")
    verdict = await gates.answer(q.IntakeCheck(run_id, contract))
    assert verdict.passed, verdict.report
    transition = decide(None, submitted, [verdict], NOW)
    assert transition is not None
    run = fold([transition], None)
    assert run is not None
    return run


@pytest.mark.parametrize("spelling", ["slash", "git folder", "file", "link", "worktree"])
async def test_another_spelling_of_a_repository_waits_for_its_lock(
    gates: GateEngine, repository: Repository, tmp_path: Path, spelling: str
) -> None:
    (tmp_path / "link").symlink_to(repository.path)
    repository.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "worktree"))
    spelled = {
        "slash": f"{repository.url}/",
        "git folder": f"{repository.url}/.git",
        "file": repository.path.as_uri(),
        "link": str(tmp_path / "link"),
        "worktree": str(tmp_path / "worktree"),
    }
    first = await accept(gates, 1, repository.url)
    second = await accept(gates, 2, spelled[spelling])
    assert second.accepted.repository_url == spelled[spelling]
    taken = await gates.answer(q.LocksCheck(first))
    assert isinstance(taken, q.LocksVerdict)
    assert taken.token == 1
    waiting = await gates.answer(q.LocksCheck(second))
    assert isinstance(waiting, q.LocksVerdict)
    assert (waiting.token, waiting.holders) == (0, (first.run_id,))


async def test_another_spelling_of_a_repository_shares_its_share(gates: GateEngine, repository: Repository) -> None:
    first = await accept(gates, 1, repository.url)
    second = await accept(gates, 2, f"{repository.url}/.git")
    in_flight = InFlight()
    tasks = make_run(1, 3).tasks
    in_flight.saw(first.__class__(first.run_id, first.trace_id, first.accepted, "S2", tasks=tasks))
    assert in_flight.of_others(second, "worker") == 3
