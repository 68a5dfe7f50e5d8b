"""Changes of the wrong kind or in the wrong place inside a scope that was granted, and shards that touch each other's files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Agent, Scope
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import RUN, RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

FILES = {
    "README.md": b"read me\n",
    "src/app.py": b"one\n",
    "src/run.sh": b"#!/bin/sh\n",
    "src/a/x.py": b"x\n",
    "src/b/y.py": b"y\n",
    "src/test_app.py": b"def test_app(): assert app() == 42\n",
    "src/migrations/0001.py": b"first\n",
    "src/requirements.txt": b"one==1\n",
    "secret.py": b"KEY = 'outside'\n",
}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    repository = make_repository(files=FILES)
    (repository.path / "src/run.sh").chmod(0o755)
    (repository.path / "src/link").symlink_to("app.py")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "-m", "modes")
    async with open_gate(repository, tmp_path) as opened:
        yield opened


async def judged(gate: RealGate) -> GateReport:
    """The verdict on what the work tree of the repository holds now."""
    gate.repository.git("add", "--all", "--force")
    patch = gate.repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")
    return await gate.diff(await gate.worked(patch))


async def test_an_executable_that_is_made_plain(gate: RealGate) -> None:
    (gate.repository.path / "src/run.sh").chmod(0o644)
    assert codes(await judged(gate)) == ["mode_change_refused"]


async def test_a_plain_file_that_becomes_executable(gate: RealGate) -> None:
    (gate.repository.path / "src/app.py").chmod(0o755)
    assert codes(await judged(gate)) == ["executable_refused"]


async def test_a_link_that_is_removed_or_becomes_a_file(gate: RealGate) -> None:
    (gate.repository.path / "src/link").unlink()
    assert codes(await judged(gate)) == ["symlink_refused"]
    (gate.repository.path / "src/link").write_text("app.py")
    assert codes(await judged(gate)) == ["symlink_refused"]


async def test_a_file_that_becomes_a_link_to_itself_s_content(gate: RealGate) -> None:
    path = gate.repository.path / "src/app.py"
    path.unlink()
    path.symlink_to("one")
    assert codes(await judged(gate)) == ["symlink_refused"]


async def test_a_rename_across_the_scope_is_judged_on_both_sides(gate: RealGate) -> None:
    (gate.repository.path / "src/app.py").rename(gate.repository.path / "app.py")
    assert codes(await judged(gate)) == ["path_out_of_scope"]
    gate.repository.git("reset", "--quiet", "--hard")
    (gate.repository.path / "secret.py").rename(gate.repository.path / "src/mine.py")
    report = await judged(gate)
    assert [(violation.code, violation.path) for violation in report.violations] == [("path_out_of_scope", "secret.py")]


async def test_a_patch_in_git_s_rename_or_copy_form_hides_no_side(gate: RealGate) -> None:
    moved = b"diff --git a/secret.py b/src/mine.py\nsimilarity index 100%\nrename from secret.py\nrename to src/mine.py\n"
    assert codes(await gate.diff(await gate.worked(moved))) == ["path_out_of_scope"]
    copied = b"diff --git a/src/app.py b/copy.py\nsimilarity index 100%\ncopy from src/app.py\ncopy to copy.py\n"
    assert codes(await gate.diff(await gate.worked(copied))) == ["path_out_of_scope"]


async def test_a_cache_outside_the_scope_is_named_as_one_and_not_offered(gate: RealGate) -> None:
    report = await gate.diff(await gate.worked(gate.patch({"tools/__pycache__/m.pyc": b"code", "tools/x.py": b"x\n"})))
    assert {violation.path: violation.detail for violation in report.violations if violation.code == "path_out_of_scope"} == {
        "tools/__pycache__/m.pyc": "outside the contract's paths; a tool wrote it: have .gitignore name it",
        "tools/x.py": "outside the contract's paths",
    }
    assert retry_options(report) == ()


async def test_a_test_that_is_deleted_weakened_or_moved_away(gate: RealGate) -> None:
    test = gate.repository.path / "src/test_app.py"
    test.write_text("def test_app(): assert True\n")
    assert codes(await judged(gate)) == ["path_protected"]
    test.unlink()
    assert codes(await judged(gate)) == ["path_protected"]
    (gate.repository.path / "src/old_app_checks.py").write_bytes(FILES["src/test_app.py"])
    assert codes(await judged(gate)) == ["path_protected"]


@pytest.mark.parametrize(
    "name",
    [
        "src/.env",
        "src/.ENV",
        "src/.env.local",
        "src/server.key",
        "src/secrets.yml",
        "src/credentials",
        "src/id_rsa",
        "src/.netrc",
        "src/.pypirc",
        "src/.ssh/config",
        "src/.aws/credentials",
        "src/.gitconfig",
        "src/.lfsconfig",
        "src/.gatewright/policies.json",
    ],
)
async def test_a_sacred_path_in_scope_even_when_everything_is_opened(
    name: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    opened = Scope(allow_protected_paths=("src", name), allow_dependency_change=True, allow=("gitattributes", "binary"))
    async with open_gate(make_repository(files=FILES), tmp_path, scope=opened) as gate:
        path = gate.repository.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("3f8a1c0d9b7e6f5a\n")
        report = await judged(gate)
    assert codes(report) == ["path_protected"]
    assert report.violations[0].rule == "protected_paths.sacred"


@pytest.mark.parametrize(
    "name", [".github/workflows/ci.yml", ".gitlab-ci.yml", ".ci/run", "Jenkinsfile", ".circleci/config.yml"]
)
async def test_the_pipeline_even_when_the_contract_names_it(name: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path, allowed_paths=(name,)) as gate:
        path = gate.repository.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("env | base64\n")
        assert codes(await judged(gate)) == ["path_protected"]


@pytest.mark.parametrize(
    "name", ["src/conftest.py", "src/pytest.ini", "src/fixtures/x", "src/__snapshots__/a.snap", "src/CLAUDE.md"]
)
async def test_what_decides_over_tests_or_agents_without_the_contract_s_leave(name: str, gate: RealGate) -> None:
    path = gate.repository.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("collect_ignore = ['test_app.py']\n")
    assert codes(await judged(gate)) == ["path_protected"]


async def test_an_old_migration_that_is_rewritten_while_a_new_one_is_added(gate: RealGate) -> None:
    (gate.repository.path / "src/migrations/0002.py").write_text("second\n")
    assert codes(await judged(gate)) == []
    (gate.repository.path / "src/migrations/0001.py").write_text("rewritten\n")
    report = await judged(gate)
    assert [violation.path for violation in report.violations] == ["src/migrations/0001.py"]


async def test_one_opened_class_does_not_open_another(make_repository: MakeRepository, tmp_path: Path) -> None:
    files = {**FILES, "src/tests/requirements.txt": b"one==1\n"}
    async with open_gate(make_repository(files=files), tmp_path, scope=Scope(allow_protected_paths=("src/tests",))) as gate:
        (gate.repository.path / "src/tests/requirements.txt").write_text("evil==1\n")
        report = await judged(gate)
    assert [(violation.code, violation.rule) for violation in report.violations] == [
        ("path_protected", "protected_paths.dependencies")
    ]


async def test_an_opened_class_is_named_in_the_evidence(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow_dependency_change=True)) as gate:
        (gate.repository.path / "src/requirements.txt").write_text("one==2\n")
        report = await judged(gate)
    assert report.verdict == "PASS"
    told = {rule.rule: rule.detail for rule in report.rules}
    assert told["protected_paths.dependencies"] == ("opened by scope.allow_dependency_change, touched: src/requirements.txt")


async def test_a_file_too_large_and_a_binary_each_by_its_own_rule(gate: RealGate) -> None:
    (gate.repository.path / "src/large.txt").write_bytes(b"a\n" * 600_000)
    (gate.repository.path / "src/blob").write_bytes(b"a\0b")
    report = await judged(gate)
    assert {(violation.code, violation.rule) for violation in report.violations} == {
        ("file_too_large", "protected_paths.limits"),
        ("binary_refused", "change_kinds.binary"),
    }


async def test_more_changed_files_than_anybody_would_review(gate: RealGate) -> None:
    git = gate.repository.git
    blob = git("hash-object", "-w", "--stdin", stdin=b"x\n").strip()
    lines = b"".join(b"100644 " + blob + b"\tsrc/many/%06d.py\0" % number for number in range(20_001))
    git("update-index", "-z", "--index-info", stdin=lines)
    patch = git("diff", "--cached", "--binary", "--no-renames", "HEAD")
    assert codes(await gate.diff(await gate.worked(patch))) == ["too_many_files"]


# --- the shards of one run -------------------------------------------------------------------------------------------


def shard(gate: RealGate, number: int, path: str) -> RunTask:
    """The task of a worker whose shard is ``path``."""
    task_id = f"{RUN}.plan.w{number:02}"
    contract = replace(gate.contract, task_id=task_id, allowed_paths=(path,))
    return RunTask(task_id, "worker", "default", "RUNNING", 1, contract)


async def done(gate: RealGate, task: RunTask, files: dict[str, bytes]) -> RunTask:
    """The task with a patch of ``files`` handed over and its tree recorded, as if its diff gate had been passed."""
    gate.repository.git("reset", "--quiet", "--hard")
    patch = gate.patch(files)
    mirror = await gate.gates.mirrors.open(gate.repository.url)
    await mirror.ensure(gate.run.accepted.baseline_commit)
    tree = await mirror.apply(gate.run.accepted.baseline_commit, patch)
    agent = Agent(role="WORKER", agent_id=task.task_id[-3:])
    result = await gate.worked(patch, task_id=task.task_id, producer=agent)
    return replace(task, status="SUCCESS", result=result, tree=tree)


async def integrated(gate: RealGate, *tasks: RunTask) -> GateReport:
    run: Run = replace(gate.run, tasks={task.task_id: task for task in tasks})
    return (await gate.gates.answer(q.IntegratedCheck(run))).report


async def test_honest_shards_own_their_files(gate: RealGate) -> None:
    one = await done(gate, shard(gate, 1, "src/a"), {"src/a/x.py": b"changed\n"})
    two = await done(gate, shard(gate, 2, "src/b"), {"src/b/y.py": b"changed\n", "src/b/z.py": b"new\n"})
    report = await integrated(gate, one, two)
    assert report.verdict == "PASS"
    seen = evidence(report)
    assert seen[f"{one.task_id} owns"] == "1 of 3 changed files"
    assert seen[f"{two.task_id} owns"] == "2 of 3 changed files"


async def test_a_worker_that_writes_in_the_shard_of_another(gate: RealGate) -> None:
    one = await done(gate, shard(gate, 1, "src/a"), {"src/a/x.py": b"changed\n", "src/b/new.py": b"mine\n"})
    two = await done(gate, shard(gate, 2, "src/b"), {"src/b/y.py": b"changed\n"})
    report = await integrated(gate, one, two)
    assert "path_out_of_scope" in codes(report)
    assert {violation.rule for violation in report.violations} == {"file_ownership"}


async def test_two_workers_that_make_the_same_change_to_one_file(gate: RealGate) -> None:
    one = await done(gate, shard(gate, 1, "src/a"), {"src/a/x.py": b"changed\n"})
    two = await done(gate, shard(gate, 2, "src/b"), {"src/a/x.py": b"changed\n"})
    assert "patches_collide" in codes(await integrated(gate, one, two))


async def test_two_workers_whose_new_names_are_one_on_some_file_systems(gate: RealGate) -> None:
    one = await done(gate, shard(gate, 1, "src/New.py"), {"src/New.py": b"1\n"})
    two = await done(gate, shard(gate, 2, "src/new.py"), {"src/new.py": b"2\n"})
    assert codes(await integrated(gate, one, two)) == ["path_collision"]


async def test_a_recorded_tree_that_is_not_what_the_worker_s_patch_makes(gate: RealGate) -> None:
    one = await done(gate, shard(gate, 1, "src/a"), {"src/a/x.py": b"changed\n"})
    two = await done(gate, shard(gate, 2, "src/b"), {"src/b/y.py": b"changed\n"})
    forged = replace(two, tree=gate.run.accepted.baseline_tree)
    assert "file_unowned" in codes(await integrated(gate, one, forged))
