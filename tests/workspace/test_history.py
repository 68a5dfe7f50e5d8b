"""A history beside the files of a workspace: git works on it, a command cannot change it for others, and it is no change."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from gatewright.git.mirror import Mirrors
from gatewright.workspace import Workspaces, history
from gatewright.workspace.history import HistoryRules, WantedHistory
from tests.git.repositories import Repository
from tests.workspace.conftest import Project
from tests.workspace.linked_repositories import LFS_ATTRIBUTES, new_repository, pointer, store_object
from tests.workspace.shells import Shell

ALL_SHOWN = (lambda _: False, lambda _: False)
ALL = WantedHistory(HistoryRules(100, *ALL_SHOWN), "all")
DESCRIBED = WantedHistory(HistoryRules(1000, *ALL_SHOWN, has_past=False), "described")
NONE_OF_APP = WantedHistory(HistoryRules(100, lambda path: path.startswith(b"src/"), lambda _: False), "no src")


def digest_of(folder: Path) -> str:
    """Of the contents of all files below ``folder``."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in found)).hexdigest()


async def test_git_finds_the_commit_and_nothing_changed(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        said = await shell(workspace, "git rev-parse HEAD; git status --porcelain; git fsck --connectivity-only 2>&1")
        assert said.stdout.decode().split("\n")[:2] == [project.commit, ""]
        assert await workspace.changes() == ()


async def test_what_a_command_does_to_the_history_is_gone(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert workspace.history is not None
        before, kept = digest_of(workspace.history), workspace.history
        await shell(
            workspace, "echo x >>README.md; git commit -qam x; echo evil >.git/config; rm -r .git/objects; echo x >.git/new"
        )
        assert [change.path for change in await workspace.changes()] == [b"README.md"]
        assert digest_of(kept) == before
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert (await shell(workspace, "git log --format=%s")).stdout == b"first\n"


async def test_histories_of_other_rules_are_apart(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    for wanted, shown in ((ALL, b"one\n"), (NONE_OF_APP, b"[withheld: the path is masked]\n"), (ALL, b"one\n")):
        async with workspaces.open(project.mirror, project.commit, history=wanted) as workspace:
            assert (await shell(workspace, "git show HEAD:src/app.py")).stdout == shown


async def test_a_repository_of_sha256_has_a_history(workspaces: Workspaces, tmp_path: Path, shell: Shell) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "home").mkdir()
    repository = Repository(tmp_path / "repository", tmp_path / "home")
    repository.path.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    commit = repository.commit({"a.py": b"x\n"}, "first")
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.resolve("HEAD")
    async with workspaces.open(mirror, commit, history=ALL) as workspace:
        assert (await shell(workspace, "git log --format=%H; git status --porcelain")).stdout.decode() == f"{commit}\n"


@pytest.mark.parametrize("name", ["config", "hooks", "objects/info/alternates", "FETCH_HEAD", "logs"])
async def test_a_history_brings_nothing_of_the_mirror(workspaces: Workspaces, project: Project, name: str) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert workspace.history is not None
        found = workspace.history / name
        assert not found.exists() or (name == "config" and str(project.mirror.path) not in found.read_text())


DESCRIBE = "git describe --always --dirty; git describe --always --tags --long; git describe --always --match 'v*'"


async def described_twice(workspaces: Workspaces, repository: Repository, shell: Shell) -> tuple[str, str]:
    """What the repository and its copy in a workspace answer to ``DESCRIBE``."""
    mirror = await Mirrors(repository.home / "mirrors").open(repository.url)
    commit = await mirror.resolve("HEAD")
    async with workspaces.open(mirror, commit, history=DESCRIBED) as workspace:
        copied = (await shell(workspace, DESCRIBE)).stdout.decode()
    own = "".join(repository.git(*shlex.split(each)[1:]).decode() for each in DESCRIBE.split("; "))
    return own, copied


@pytest.fixture
def tagged(tmp_path: Path) -> Repository:
    repository = new_repository(tmp_path / "tagged")
    repository.commit({"a.py": b"1\n"})
    repository.git("tag", "-a", "-m", "password = hunter2", "v1.0")
    for number in range(6):
        repository.commit({"a.py": f"{number}\n".encode()})
    repository.git("tag", "light")
    repository.commit({"a.py": b"last\n"})
    return repository


async def test_copy_is_described_as_the_repository(workspaces: Workspaces, tagged: Repository, shell: Shell) -> None:
    own, copied = await described_twice(workspaces, tagged, shell)
    assert copied == own
    assert own.startswith("v1.0-7-g")


async def test_merged_branch_is_described_as_in_the_repository(overlays: Workspaces, tagged: Repository, shell: Shell) -> None:
    tagged.git("checkout", "--quiet", "-b", "side", "HEAD~5")
    tagged.commit({"side.py": b"side\n"})
    tagged.git("checkout", "--quiet", "main")
    tagged.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    own, copied = await described_twice(overlays, tagged, shell)
    assert copied == own


async def test_files_of_earlier_commits_are_left_out(overlays: Workspaces, tagged: Repository, shell: Shell) -> None:
    mirror = await Mirrors(tagged.home / "mirrors").open(tagged.url)
    async with overlays.open(mirror, await mirror.resolve("HEAD"), history=DESCRIBED) as workspace:
        done = await shell(
            workspace, "git log --format=%s | wc -l; git show HEAD:a.py; ! git show HEAD~1:a.py; git archive HEAD >x"
        )
        assert done.stdout.split() == [b"8", b"last"]


async def test_new_tag_is_seen_without_a_new_commit(
    overlays: Workspaces, tagged: Repository, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_TAGS_SECONDS", 0.0)
    await described_twice(overlays, tagged, shell)
    tagged.git("tag", "-a", "-m", "next", "v1.1")
    assert (await described_twice(overlays, tagged, shell))[1].startswith("v1.1\n")


async def test_copied_tag_has_no_message(overlays: Workspaces, tagged: Repository, shell: Shell) -> None:
    mirror = await Mirrors(tagged.home / "mirrors").open(tagged.url)
    async with overlays.open(mirror, await mirror.resolve("HEAD"), history=ALL) as workspace:
        assert b"hunter2" not in (await shell(workspace, "git cat-file tag v1.0; git fsck 2>&1")).stdout


async def test_object_of_lfs_leaves_the_copy_clean(workspaces: Workspaces, tagged: Repository, shell: Shell) -> None:
    tagged.commit({".gitattributes": LFS_ATTRIBUTES, "a.bin": pointer(b"content")})
    store_object(tagged.path / ".git/lfs", b"content")
    mirror = await Mirrors(tagged.home / "mirrors").open(tagged.url)
    async with workspaces.open(mirror, await mirror.resolve("HEAD"), history=ALL) as workspace:
        done = await shell(workspace, "cat a.bin; git status --porcelain; git describe --dirty")
        assert done.stdout.startswith(b"contentv1.0-8-g")
        assert b"dirty" not in done.stdout
