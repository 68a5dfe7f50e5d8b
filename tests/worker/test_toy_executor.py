"""A toy executor, added by the steps of CONTRIBUTING.md, makes a change in a real worker and is known to whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.app.cli.run.change_source import read_answer
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Executor, Sharding
from gatewright.errors import Fault, MalformedError
from gatewright.evidence.layout import result_artifact
from gatewright.executor_kinds import EXECUTOR_KINDS, ExecutorKind
from gatewright.git.changes import FileChange
from gatewright.git.modes import FILE
from gatewright.order_form.rows import Kind, Panel, option, rows_of
from gatewright.order_form.run_options import RunOptions
from gatewright.rules.rounds import most_attempts
from gatewright.services.pm.compiler import check_complete
from gatewright.services.techlead import handler as techlead
from gatewright.services.techlead.handler import Settings as TechLeadSettings
from gatewright.services.worker.executors.port import ExecutionResult, Job
from gatewright.services.worker.executors.table import EXECUTORS
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.tasks.inputs import read_artifact
from tests.factories import make_request
from tests.handler_fixture import HandlerFixture

TOY: Any = "toy"


# Step 2: the executor.
class ToyExecutor:
    """Writes its answer, an artifact, to the first allowed path."""

    async def execute(self, job: Job) -> ExecutionResult:
        content = await read_artifact(job.contract, job.answer, job.artifacts)
        path = job.contract.allowed_paths[0].encode()
        tree = await job.mirror.write_tree(job.baseline, [FileChange(path, FILE, content)])
        return ExecutionResult(tree, await job.mirror.diff(job.baseline, tree), {"toy_log": b"wound up\n"}, "played")


# Step 3: the option.
@dataclass(frozen=True, slots=True, kw_only=True)
class ToyOptions(RunOptions):
    toy: str | None = option("--toy", kind=Kind.TEXT, metavar="FILE", help="A toy makes the change.", panel=Panel.CHANGE)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    # Step 1: the row of its kind; and, with step 2, its line in the worker's table.
    row = ExecutorKind(
        answers="artifacts",
        option="toy",
        label="A toy",
        sentence="A toy made the change.",
        artifact="toy-{}",
        logs={"toy_log": "toys/{}/toy.log"},
    )
    monkeypatch.setitem(EXECUTOR_KINDS, TOY, row)
    monkeypatch.setitem(EXECUTORS, TOY, lambda _host: ToyExecutor())


def toy_contract(fixture: HandlerFixture) -> TaskContract:
    artifact = fixture.artifacts.hold("toy-1", b"x = 2\n")
    contract = fixture.contract(allowed_paths=("src/a.py",))
    inputs = replace(contract.inputs, artifacts=(artifact,))
    return replace(contract, inputs=inputs, executor=Executor(kind=TOY, artifacts=("toy-1",)))


async def test_a_toy_makes_a_change_in_a_real_worker(fixture: HandlerFixture) -> None:
    worker = make_handler(Settings(home=fixture.state))
    contract = toy_contract(fixture)
    result = await worker.handle(contract, fixture.context())
    assert (result.status, result.summary) == ("SUCCESS", "1 file changed: 1 modified; played")
    (log,) = (each for each in result.artifacts if each.name == "toy_log")
    assert await fixture.artifacts.get(log.uri) == b"wound up\n"
    assert result.git.patch
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    assert await fixture.artifacts.get(result.git.patch) == patch

    again = await worker.handle(replace(contract, attempt=2), fixture.context())
    assert again.failure is not None
    assert "the toy executor has 1 answer(s)" in again.failure


def test_the_log_of_a_toy_has_its_place_in_the_bundle() -> None:
    assert result_artifact("run-x.1", "toy_log") == "toys/run-x.1/toy.log"


async def test_a_toy_is_not_split_and_has_as_many_attempts_as_answers(fixture: HandlerFixture) -> None:
    contract = replace(toy_contract(fixture), sharding=Sharding(count=4))
    plan: Any = await techlead.make_handler(TechLeadSettings(home=fixture.state)).handle(contract, fixture.context())
    assert len(plan.contracts) == 1
    assert most_attempts(contract) == 1


def test_a_toy_without_an_answer_is_asked_for_one() -> None:
    request: RunRequest = replace(make_request(), executor=Executor(kind=TOY))
    with pytest.raises(MalformedError) as refused:
        check_complete(request)
    assert [(fault.pointer, fault.message) for fault in refused.value.faults] == [
        ("/executor/artifacts", "is required: at least one answer for the toy executor")
    ]


def test_the_option_of_a_toy_brings_its_answer(tmp_path: Path) -> None:
    (tmp_path / "toy").write_bytes(b"x = 3\n")
    faults: list[Fault] = []
    answer = read_answer(ToyOptions(request="x", toy=str(tmp_path / "toy")), faults)
    assert (answer.executor, faults) == (Executor(kind=TOY, artifacts=("toy-1",)), [])
    assert answer.attachments == (("toy-1", b"x = 3\n"),)
    assert [row.flag for row in rows_of(ToyOptions) if row.name == "toy"] == ["--toy"]
