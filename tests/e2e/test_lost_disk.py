"""The disk of an installation is lost, and it is brought back from a backup that was taken while runs went on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.stack import state
from gatewright.app.stack.processes import identity
from gatewright.client.sync import SyncClient
from gatewright.contracts.vocabulary import Repository as Project
from gatewright.run.state import Run
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, Stack, slow_request, wait_until
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

TARGET = "refs/heads/main-line"


@contextlib.contextmanager
def started(home: Path) -> Iterator[Stack]:
    """A stack as an operator starts it; what is left of it is killed at the end."""
    stack = Stack(home)
    up = stack.process("up", "--detach", "--workers", "1", "--env", str(PREFIX))
    assert up.returncode == 0, up.stderr
    try:
        yield stack
    finally:
        kill(stack)


def kill(stack: Stack) -> None:
    """As the loss of a host does: no process may end in order."""
    found = state.read(stack.home) if stack.home.is_dir() else None
    if found is not None:
        pids = [found.pid, *(member.pid for member in found.members)]
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGKILL)
        wait_until(lambda: not any(identity(pid) for pid in pids))


@contextlib.contextmanager
def held(stack: Stack, role: str) -> Iterator[None]:
    """Processes of the role say nothing meanwhile, so that no run gets past them while something else takes its time."""
    found = state.read(stack.home)
    assert found is not None
    pids = [member.pid for member in found.members if member.name.startswith(role)]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def submit(client: SyncClient, project: Path, seconds: float, *, target: bool = False) -> str:
    request = slow_request(project, seconds)
    if target:
        request = replace(request, repository=Project(url=str(project), target_ref=TARGET, landing="target"))
    return client.submit_request(request, patience=PATIENCE)


def commits(repository: Repository, ref: str) -> list[bytes]:
    return repository.git("rev-list", f"main..{ref}").split()


@pytest.mark.long
def test_a_restored_disk_continues_and_lands_nothing_twice(make_project: MakeProject, tmp_path: Path) -> None:
    project, kept = make_project(), tmp_path / "kept"
    repository = Repository(project, project.parent / "home")
    repository.git("branch", "main-line", "main")
    with started(tmp_path / "first") as first:
        with first.client() as client:
            sealed = client.wait(submit(client, project, 0.0), timeout=SECONDS)
            at_work = submit(client, project, 3.0, target=True)
            wait_until(lambda: first.in_hand("worker") == 1)
            with held(first, "worker"):
                waiting = submit(client, project, 0.0)
                wait_until(lambda: client.get(waiting).state == "S2")
                taken = first.process("backup", str(kept), "--json")
            assert taken.returncode == 0, taken.stdout + taken.stderr
            landed_after = client.wait(at_work, timeout=SECONDS)
        assert landed_after.landed is not None
        kill(first)
        shutil.rmtree(first.home)

    digest = json.loads(taken.stdout)["sha256"]
    second_home = Stack(tmp_path / "second")
    restored = second_home.process("restore", str(kept), "--digest", f"sha256:{digest}", "--json")
    assert restored.returncode == 0, restored.stdout + restored.stderr
    with started(second_home.home) as second:
        assert second.command("verify", sealed.run_id).returncode == 0
        with second.client() as client:
            assert client.get(sealed.run_id).status == "SUCCESS"
            found = client.wait(at_work, timeout=SECONDS)
            went_on = client.wait(waiting, timeout=SECONDS)
        assert_found(found, landed_after, repository)
        assert second.command("verify", found.run_id, "--repo", str(project)).returncode == 0
        assert went_on.status == "SUCCESS"
        assert went_on.landed is not None
        assert len(commits(repository, went_on.landed.ref)) == 1


def assert_found(found: Run, landed: Run, repository: Repository) -> None:
    """The run ends with the commit that it had landed before, which is the only one."""
    assert found.landed is not None
    assert landed.landed is not None
    assert (found.status, found.landed.found, found.landed.commit) == ("SUCCESS", True, landed.landed.commit)
    assert commits(repository, TARGET) == [landed.landed.commit.encode()]
