"""Rules of a local target (hooks, settings, file modes) are never switched off: the run is refused before any work, by name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import LandingMode
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import GitError
from gatewright.git.host.run_refs import LocalRunRefs
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.run.state import Run
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import MakeRepository, Repository

REFUSES = "#!/bin/sh\necho 'unsigned commits are refused' >&2\nexit 1\n"
ACCEPTS = "#!/bin/sh\ncat >/dev/null\n"


@dataclass
class Bare:
    """A bare repository as a server has it, and who pushes to it as people do."""

    source: Repository
    path: Path

    def git(self, *words: str) -> str:
        return self.source.git("-C", str(self.path), *words).decode().strip()

    def hook(self, name: str, text: str = REFUSES, mode: int = 0o755, folder: str = "hooks") -> Path:
        file = self.path / folder / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def takes_pushes(self) -> bool:
        """What plain git says to a push that makes a branch."""
        words = ("push", "--quiet", str(self.path), "HEAD:refs/heads/plain")
        argv = ["git", "-C", str(self.source.path), *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.source.home)}
        return subprocess.run(argv, env=environment, capture_output=True, check=False).returncode == 0


@pytest.fixture
def bare(make_repository: MakeRepository, tmp_path: Path) -> Bare:
    source = make_repository()
    source.git("clone", "--quiet", "--bare", str(source.path), str(tmp_path / "target.git"))
    return Bare(source, tmp_path / "target.git")


async def ordered(bare: Bare, folder: Path, url: str = "", landing: LandingMode = "branch") -> tuple[Gatekeeper, Run]:
    """A run for the bare repository, up to its end or the first work."""
    target = "refs/heads/main" if landing == "target" else None
    where = RepositoryField(url=url or str(bare.path), landing=landing, target_ref=target)
    async with open_gatekeeper(bare.source, folder) as gatekeeper:
        return gatekeeper, await gatekeeper.submit(replace(contract_on(bare.source), repository=where))


def fault(run: Run) -> tuple[str, str]:
    assert run.failure is not None
    assert not run.tasks, "work was given out"
    return run.failure.code, run.failure.message


@pytest.mark.parametrize("spelled", ["{}", "file://{}"])
@pytest.mark.parametrize("name", ["pre-receive", "update", "reference-transaction"])
async def test_a_hook_that_may_refuse_is_named_before_any_work(bare: Bare, tmp_path: Path, name: str, spelled: str) -> None:
    hook = bare.hook(name)
    assert not bare.takes_pushes()
    _, run = await ordered(bare, tmp_path / "home", spelled.format(bare.path))
    code, message = fault(run)
    assert code == "target_has_hooks"
    assert str(hook) in message
    assert "ssh" in message


async def test_a_hook_of_an_existing_target_branch_is_named(bare: Bare, tmp_path: Path) -> None:
    bare.hook("pre-receive", ACCEPTS)
    _, run = await ordered(bare, tmp_path / "home", landing="target")
    assert fault(run)[0] == "target_has_hooks"


async def test_where_nothing_lands_no_hook_is_in_the_way(bare: Bare, tmp_path: Path) -> None:
    bare.hook("pre-receive")
    _, run = await ordered(bare, tmp_path / "home", landing="none")
    assert run.failure is None


def elsewhere(bare: Bare) -> None:
    bare.hook("pre-receive", folder="rules")
    bare.git("config", "core.hooksPath", "rules")


def in_the_home(bare: Bare) -> None:
    bare.hook("pre-receive", folder="rules")
    bare.git("config", "core.hooksPath", str(bare.path / "rules"))


def included(bare: Bare) -> None:
    bare.hook("pre-receive", folder="rules")
    (bare.path / "more.config").write_text("[core]\n\thooksPath = rules\n")
    bare.git("config", "include.path", str(bare.path / "more.config"))


def linked(bare: Bare) -> None:
    program = bare.hook("check", folder="bin")
    (bare.path / "hooks").mkdir(exist_ok=True)
    (bare.path / "hooks" / "pre-receive").symlink_to(program)


def a_folder(bare: Bare) -> None:
    (bare.path / "hooks" / "pre-receive").mkdir(parents=True)


def configured(bare: Bare) -> None:
    bare.git("config", "hook.signed.event", "pre-receive")
    bare.git("config", "hook.signed.command", "false")


def proc_receive(bare: Bare) -> None:
    bare.git("config", "receive.procReceiveRefs", "refs/heads")
    bare.hook("proc-receive")


def strict(bare: Bare) -> None:
    bare.git("config", "receive.fsckObjects", "true")
    bare.git("config", "receive.fsck.missingSpaceBeforeEmail", "error")


@pytest.mark.parametrize(
    "arm", [elsewhere, in_the_home, included, linked, a_folder, configured, proc_receive, strict], ids=lambda arm: arm.__name__
)
async def test_a_rule_is_found_wherever_it_stands(bare: Bare, tmp_path: Path, arm: Callable[[Bare], None]) -> None:
    arm(bare)
    _, run = await ordered(bare, tmp_path / "home")
    assert fault(run)[0] == "target_has_hooks"


def sample(bare: Bare) -> None:
    bare.hook("pre-receive.sample")
    bare.hook("update", mode=0o644)


def broken_link(bare: Bare) -> None:
    (bare.path / "hooks").mkdir(exist_ok=True)
    (bare.path / "hooks" / "pre-receive").symlink_to("nowhere")


def of_clients(bare: Bare) -> None:
    for name in ("pre-push", "pre-commit", "commit-msg", "prepare-commit-msg", "post-checkout", "pre-auto-gc"):
        bare.hook(name)


def switched_off(bare: Bare) -> None:
    bare.hook("pre-receive")
    bare.git("config", "core.hooksPath", "/dev/null")


def checked_out_only(bare: Bare) -> None:
    """It runs for a branch that is checked out alone, which nothing lands on."""
    bare.hook("push-to-checkout")


def commits_of_the_owner(bare: Bare) -> None:
    bare.git("config", "hook.linter.event", "pre-commit")
    bare.git("config", "hook.linter.command", "false")


@pytest.mark.parametrize(
    "arm",
    [sample, broken_link, of_clients, switched_off, checked_out_only, commits_of_the_owner],
    ids=lambda arm: arm.__name__,
)
async def test_what_is_no_rule_about_pushes_is_not_in_the_way(bare: Bare, tmp_path: Path, arm: Callable[[Bare], None]) -> None:
    arm(bare)
    assert bare.takes_pushes()
    _, run = await ordered(bare, tmp_path / "home")
    assert run.failure is None


@pytest.mark.parametrize("name", ["post-receive", "post-update"])
async def test_a_hook_that_only_reacts_is_reported(bare: Bare, tmp_path: Path, name: str) -> None:
    bare.hook(name, ACCEPTS)
    gatekeeper, run = await ordered(bare, tmp_path / "home")
    assert run.failure is None
    (report,) = await gatekeeper.reports("policy")
    assert [remark.message.endswith(f"{name} of the target does not run") for remark in report.remarks] == [True]


@pytest.mark.parametrize("folder", ["", "refs", "refs/heads", "objects"])
async def test_a_target_that_is_read_only_is_refused(bare: Bare, tmp_path: Path, folder: str) -> None:
    """A process of root may write all the same."""
    (bare.path / folder).chmod(0o555)
    try:
        _, run = await ordered(bare, tmp_path / "home")
        code, message = fault(run)
        assert (code, str(bare.path / folder) in message) == ("target_read_only", True)
    finally:
        (bare.path / folder).chmod(0o755)


@pytest.fixture
async def mirror(bare: Bare, tmp_path: Path) -> Mirror:
    found = await Mirrors(tmp_path / "mirrors").open(str(bare.path))
    await found.ensure(bare.source.head())
    return found


async def test_a_hook_that_comes_during_the_work_is_named_at_the_landing(bare: Bare, mirror: Mirror) -> None:
    bare.hook("update")
    for expected in (None, bare.source.head()):
        with pytest.raises(GitError) as refused:
            await mirror.push(
                bare.source.head(), "refs/heads/new" if expected is None else "refs/heads/main", expected=expected
            )
        assert refused.value.reason == "target_has_hooks"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("receive.hideRefs", "refs/heads"), ("transfer.hideRefs", "refs/heads"), ("receive.maxInputSize", "1")],
)
async def test_a_setting_that_refuses_pushes_refuses_a_new_branch(bare: Bare, mirror: Mirror, setting: str, value: str) -> None:
    head = bare.source.head()
    bare.git("config", setting, value)
    made = await mirror.commit_tree(await mirror.tree_of(head), parent=head, message="x", when=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(GitError) as refused:
        await mirror.push(made, "refs/heads/new", expected=None)
    assert refused.value.reason == "landing_refused"
    assert bare.git("for-each-ref", "--format=%(refname)", "refs/heads/new") == ""


async def test_a_deletion_that_a_hook_watches_is_left_to_git(make_repository: MakeRepository) -> None:
    repository = make_repository()
    repository.git("branch", "gatewright/run-1")
    hook = repository.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(REFUSES)
    hook.chmod(0o755)
    refs = LocalRunRefs(repository.checkout)
    (found,) = refs.found()
    with pytest.raises(GitError) as refused:
        refs.delete(found)
    assert refused.value.reason == "target_has_hooks"
    assert "git branch -D" in refused.value.message
    assert repository.exists("gatewright/run-1")
