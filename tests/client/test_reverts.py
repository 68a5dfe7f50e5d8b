"""The order that reverts a landed run: what it takes from the run, what it may change, and which runs have none."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gatewright.client.reverts import RevertChoices, prepare_revert
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, LandingMode, RevertedRun, Scope
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import MalformedError
from gatewright.run.state import Run, RunFailure
from tests.cli.runs.test_showing_runs import view_after
from tests.factories import make_contract
from tests.gatekeeper.simulated_run import Script
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

MAIN = "refs/heads/main"
CHOICES = RevertChoices(requested_by="ana", ordered_by=("ana",))


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


def landed(
    repository: Repository, files: Mapping[str, bytes | None], *, mode: LandingMode = "target", **changes: object
) -> Run:
    """A run that landed ``files`` on main; ``changes`` are fields of its contract."""
    run = view_after(Script()).run
    commit = repository.commit(files, f"landed\n\nGatewright-Run: {run.run_id}\n")
    target = MAIN if mode != "branch" else None
    place = RepositoryField(url=repository.url, target_ref=target, landing=mode)
    contract: TaskContract = replace(make_contract(run.run_id, repository=place), **changes)
    assert run.landed is not None
    ref = target or f"refs/heads/gatewright/{run.run_id}"
    return replace(run, contract=contract, landed=replace(run.landed, commit=commit, mode=mode, ref=ref))


async def refusal(run: Run, choices: RevertChoices = CHOICES) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        await prepare_revert(run, choices)
    return caught.value


async def test_the_order_has_the_exact_paths_and_what_the_run_had(repository: Repository) -> None:
    tests = (
        AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True),
        AcceptanceTest(name="hidden-1", cmd="python secret.py", must_pass=True, hidden=True),
    )
    scope = Scope(allow_protected_paths=("tests",), allow=("binary",), allow_dependency_change=True)
    files = {"src/app.py": b"new\n", "tests/test_app.py": b"def test(): ...\n"}
    run = landed(repository, files, scope=scope, acceptance_tests=tests, allowed_paths=("src", "tests"), priority="high")
    given = (Artifact(name="provide:src/version.py", uri="artifact:sha256:" + "a" * 64, sha256="a" * 64),)
    assert run.contract is not None
    run = replace(run, contract=replace(run.contract, inputs=replace(run.contract.inputs, artifacts=given)))
    request, attachments = await prepare_revert(run, dataclasses.replace(CHOICES, reason="it was too early"))
    assert run.landed is not None
    assert request.reverts == RevertedRun(run_id=run.run_id, commit=run.landed.commit)
    assert request.request.startswith("Revert: modernise the sources\n\nIt reverts ")
    assert request.request.endswith("\n\nit was too early")
    assert request.allowed_paths == ("src/app.py", "tests/test_app.py")
    assert request.acceptance_tests == tests[:1]
    assert request.scope == replace(scope, allow_protected_paths=("tests/test_app.py",))
    assert (request.baseline_ref, request.repository.landing, request.repository.target_ref) == (MAIN, "target", MAIN)
    assert (request.requested_by, request.ordered_by, request.priority) == ("ana", ("ana",), "high")
    assert request.artifacts == given
    ((name, patch),) = attachments
    assert request.executor is not None
    assert (request.executor.kind, request.executor.artifacts) == ("patch", (name,))
    assert b"-new\n" in patch


async def test_choices_replace_tests_landing_and_branch(repository: Repository) -> None:
    run = landed(repository, {"src/app.py": b"new\n"})
    repository.git("branch", "release")
    choices = RevertChoices(landing="queue", target_ref="release", tests=("true",), allow_kinds=("symlink",))
    request, _ = await prepare_revert(run, choices)
    assert (request.baseline_ref, request.repository.landing) == ("refs/heads/release", "queue")
    assert [test.cmd for test in request.acceptance_tests] == ["true"]
    assert request.scope == Scope(allow=("symlink",))


async def test_many_added_files_are_deleted_by_a_stated_operation(repository: Repository) -> None:
    files = {f"src/package/{number}.py": b"%d\n" % number for number in range(8)}
    request, attachments = await prepare_revert(landed(repository, files), CHOICES)
    assert request.scope is not None
    (stated,) = request.scope.destructive_statements
    assert (request.scope.destructive, stated.operation) == (("delete files",), "delete files")
    assert (stated.blast_radius.paths, stated.blast_radius.max_deletions) == (tuple(files), 8)
    assert dict(attachments)[stated.dry_run].decode().split() == list(files)


async def test_a_name_that_a_contract_cannot_hold_is_allowed_by_its_folder(repository: Repository) -> None:
    request, _ = await prepare_revert(landed(repository, {"src/[id].py": b"new\n"}), CHOICES)
    assert request.allowed_paths == ("src",)


async def test_a_merged_run_branch_is_reverted_on_its_target(repository: Repository) -> None:
    run = landed(repository, {"src/app.py": b"new\n"}, mode="branch")
    request, _ = await prepare_revert(run, CHOICES)
    assert (request.baseline_ref, request.repository.landing, request.repository.target_ref) == ("HEAD", "branch", None)
    assert (await refusal(run, RevertChoices(landing="target"))).faults[0].pointer == "/repository/target_ref"
    repository.git("reset", "--quiet", "--hard", "HEAD^")
    assert (await refusal(run)).reason == "revert_not_on_target"


async def test_a_run_without_a_landed_commit_has_no_revert(repository: Repository) -> None:
    run = landed(repository, {"src/app.py": b"new\n"})
    failed = replace(run, landed=None, state="FAILED", failure=RunFailure("tests_failed", "one test failed"))
    assert "ended with tests_failed" in (await refusal(failed)).message
    assert run.landed is not None
    audited = replace(run, landed=replace(run.landed, commit="", mode="none"))
    assert (await refusal(audited)).reason == "nothing_landed"
    empty = landed(repository, {})
    assert "changes nothing" in (await refusal(empty)).message


async def test_a_run_with_hidden_tests_alone_needs_a_command(repository: Repository) -> None:
    hidden = (AcceptanceTest(name="hidden-1", cmd="python secret.py", must_pass=True, hidden=True),)
    run = landed(repository, {"src/app.py": b"new\n"}, acceptance_tests=hidden)
    assert (await refusal(run)).faults[0].pointer == "/acceptance_tests"


async def test_a_revert_that_was_done_already_names_the_commit_that_did_it(repository: Repository) -> None:
    run = landed(repository, {"src/app.py": b"new\n"})
    done = repository.commit({"src/app.py": b"one\ntwo\nthree\n"})
    error = await refusal(run)
    assert error.reason == "revert_conflict"
    assert f"src/app.py ({done[:12]})" in error.message


async def test_later_changes_of_other_lines_stay(repository: Repository) -> None:
    lines = [b"%d\n" % number for number in range(40)]
    repository.commit({"src/long.txt": b"".join(lines)})
    run = landed(repository, {"src/long.txt": b"first\n" + b"".join(lines[1:])})
    repository.commit({"src/long.txt": b"first\n" + b"".join(lines[1:-1]) + b"last\n"})
    request, _ = await prepare_revert(run, CHOICES)
    assert request.allowed_paths == ("src/long.txt",)
