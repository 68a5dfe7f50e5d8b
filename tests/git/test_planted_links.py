"""A local repository that planted links and pipes in git's way: nothing outside of it is written, shown or waited for."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright import confinement
from gatewright.errors import GitError, SandboxError
from gatewright.git.host.local_repository import find_repository
from gatewright.git.host.planted_links import PlantedLinks
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.sandbox import binary
from tests.git.repositories import MakeRepository, Repository

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
REF = "refs/heads/gatewright/run-1"
SECRET = "secret-word-of-the-gatekeeper"
TWO_DIGITS = [f"{number:02x}" for number in range(256)]

Plant = Callable[[Path, Path], None]


@dataclass(frozen=True)
class Victim:
    """Files of the gatekeeper's user, outside of the repository."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / ".bashrc"

    def state(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(self.folder.rglob("*"))}


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    (tmp_path / "victim").mkdir()
    found = Victim(tmp_path / "victim")
    found.file.write_text(f"{SECRET}\n")
    return found


@pytest.fixture
def target(make_repository: MakeRepository) -> Repository:
    repository = make_repository()
    # What git appends to a log is in the hands of the repository's configuration.
    repository.configure(user__name="$(touch sprung)", user__email="x", core__logAllRefUpdates="always")
    return repository


def link(name: str, *, to_file: bool = False) -> Plant:
    def plant(git_dir: Path, folder: Path) -> None:
        place = git_dir / name
        if place.is_dir():
            shutil.copytree(place, folder, dirs_exist_ok=True)
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(folder / ".bashrc" if to_file else folder)

    return plant


def link_every_object_folder(git_dir: Path, folder: Path) -> None:
    for name in TWO_DIGITS:
        if not (git_dir / "objects" / name).exists():
            (git_dir / "objects" / name).symlink_to(folder)


def link_log_by_a_second_name(git_dir: Path, folder: Path) -> None:
    log = git_dir / "logs" / REF
    log.parent.mkdir(parents=True, exist_ok=True)
    os.link(folder / ".bashrc", log)


def log_of_a_ref_behind_a_symbolic_one(git_dir: Path, folder: Path) -> None:
    (git_dir / REF).parent.mkdir(parents=True, exist_ok=True)
    (git_dir / REF).write_text("ref: refs/heads/hidden\n")
    link("logs/refs/heads/hidden", to_file=True)(git_dir, folder)


WRITTEN = {
    "log of the ref": link(f"logs/{REF}", to_file=True),
    "log of the ref by a hard link": link_log_by_a_second_name,
    "log of a symbolic ref": log_of_a_ref_behind_a_symbolic_one,
    "log of HEAD": link("logs/HEAD", to_file=True),
    "folder of the log": link("logs/refs/heads/gatewright"),
    "folder of all logs": link("logs"),
    "folder of the ref": link("refs/heads/gatewright"),
    "folder of all branches": link("refs/heads"),
    "folder of all refs": link("refs"),
    "folders of objects": link_every_object_folder,
    "folder of packs": link("objects/pack"),
    "folder of all objects": link("objects"),
}


async def prepared(target: Repository, mirrors: Mirrors) -> tuple[Mirror, str]:
    """A mirror that has seen the repository when it was harmless, and a commit that it lacks."""
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    tree = await mirror.apply(base, b"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n")
    return mirror, await mirror.commit_tree(tree, parent=base, message="land\n", when=WHEN)


@pytest.mark.parametrize("name", WRITTEN)
async def test_push_through_a_planted_link_is_refused(target: Repository, mirrors: Mirrors, victim: Victim, name: str) -> None:
    mirror, commit = await prepared(target, mirrors)
    WRITTEN[name](target.path / ".git", victim.folder)
    before = victim.state()
    with pytest.raises(GitError) as caught:
        await mirror.push(commit, REF, expected=None)
    assert victim.state() == before
    assert caught.value.reason == "repository_has_links"
    assert ".git/" in caught.value.message


@pytest.mark.parametrize("name", [name for name in WRITTEN if "hard link" not in name])
@pytest.mark.parametrize("held_by", ["landlock", "bubblewrap"])
async def test_link_that_is_planted_after_the_look_leads_nowhere(
    target: Repository, mirrors: Mirrors, victim: Victim, monkeypatch: pytest.MonkeyPatch, name: str, held_by: str
) -> None:
    mirror, commit = await prepared(target, mirrors)
    WRITTEN[name](target.path / ".git", victim.folder)
    before = victim.state()
    monkeypatch.setattr(PlantedLinks, "refuse", lambda *_names, **_options: None)
    if held_by == "bubblewrap":
        monkeypatch.setattr(confinement, "confine_writes", lambda *_names, **_options: "not confined: for this test")
    try:
        await mirror.push(commit, REF, expected=None)
    except GitError as error:
        assert error.reason in {"git_failed", "landing_refused"}  # noqa: PT017 - both ends are right: what matters is the victim
    assert victim.state() == before


async def test_push_inside_of_the_second_walls_lands(
    target: Repository, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "confine_writes", lambda *_names, **_options: "not confined: for this test")
    mirror, commit = await prepared(target, mirrors)
    await mirror.push(commit, REF, expected=None)
    assert target.head(REF) == commit


async def test_local_target_without_any_walls_is_refused(
    target: Repository, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SandboxError("no bubblewrap")

    mirror, commit = await prepared(target, mirrors)
    monkeypatch.setattr(confinement, "confine_writes", lambda *_names, **_options: "not confined: for this test")
    monkeypatch.setattr(binary, "find_bwrap", missing)
    with pytest.raises(GitError, match="Landlock") as caught:
        await mirror.push(commit, REF, expected=None)
    assert caught.value.reason == "target_not_confined"
    assert not target.exists(REF)


async def test_the_repository_cannot_choose_the_name_of_a_kept_log(target: Repository, mirrors: Mirrors) -> None:
    target.git("branch", "release")
    mirror, commit = await prepared(target, mirrors)
    await mirror.push(commit, "refs/heads/release", expected=target.head("release"))
    await mirror.push(commit, REF, expected=None)
    log = (target.path / ".git/logs/refs/heads/release").read_text()
    assert "Gatewright <gatewright@localhost>" in log.splitlines()[-1]
    assert "sprung" not in log.splitlines()[-1]
    assert not (target.path / ".git/logs" / REF).exists()


READ = ["HEAD", "packed-refs", "shallow", "config", "objects/info/alternates", "refs/heads/x", "info/grafts", "commondir"]


@pytest.mark.parametrize("name", READ)
async def test_line_of_a_file_behind_a_link_is_not_quoted(
    target: Repository, mirrors: Mirrors, victim: Victim, name: str
) -> None:
    link(name, to_file=True)(target.path / ".git", victim.folder)
    with pytest.raises(GitError) as caught:
        await (await mirrors.open(target.url)).resolve("main")
    assert SECRET not in str(caught.value)
    assert caught.value.reason == ("repository_leads_elsewhere" if name == "commondir" else "repository_has_links")


async def test_list_of_objects_to_skip_is_not_quoted(target: Repository, mirrors: Mirrors, victim: Victim) -> None:
    """``receive.fsck.skipList`` names any file, and git quotes the first line that is no object id."""
    mirror, commit = await prepared(target, mirrors)
    target.git("config", "receive.fsck.skipList", str(victim.file))
    target.git("config", "receive.fsckObjects", "true")
    await mirror.push(commit, REF, expected=None)
    assert target.head(REF) == commit


PIPES = ["HEAD", "packed-refs", "config", "refs/heads/main", "objects/info/alternates", "objects/ab/cdef"]


@pytest.mark.parametrize("name", PIPES)
async def test_pipe_in_a_repository_is_refused_at_once(target: Repository, mirrors: Mirrors, name: str) -> None:
    mirror, commit = await prepared(target, mirrors)
    place = target.path / ".git" / name
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)
    for asked in (mirror.resolve("main"), mirror.push(commit, REF, expected=None)):
        with pytest.raises(GitError) as caught:
            await asked
        assert caught.value.reason == "repository_has_special_files"
        assert name in caught.value.message


@pytest.mark.parametrize("name", ["refs/heads/x", "refs/heads/deep/er/x"])
async def test_a_pipe_planted_as_another_ref_is_refused(target: Repository, mirrors: Mirrors, name: str) -> None:
    """What asks for one ref, or makes one, never opens another; a fetch and the move of a branch list them all."""
    mirror, commit = await prepared(target, mirrors)
    base, later = target.head(), target.commit({"more.txt": b"more\n"})
    target.git("branch", "release", base)
    place = target.path / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)
    for asked in (mirror.ensure(later), mirror.push(commit, "refs/heads/release", expected=base)):
        with pytest.raises(GitError) as caught:
            await asked
        assert caught.value.reason == "repository_has_special_files"
        assert name in caught.value.message
    assert await mirror.current("refs/heads/main") == later
    await mirror.push(commit, REF, expected=None)
    place.unlink()
    assert target.head(REF) == commit


async def test_symbolic_ref_is_looked_at_where_it_leads(target: Repository, mirrors: Mirrors, victim: Victim) -> None:
    mirror, _ = await prepared(target, mirrors)
    heads = target.path / ".git/refs/heads"
    (heads / "alias").write_text("ref: refs/heads/further\n")
    (heads / "further").write_text("ref: refs/heads/last\n")
    (heads / "last").symlink_to(victim.file)
    with pytest.raises(GitError) as caught:
        await mirror.current("refs/heads/alias")
    assert caught.value.reason == "repository_has_links"
    assert SECRET not in caught.value.message


async def test_pipe_in_the_place_of_a_log_is_refused_at_once(target: Repository, mirrors: Mirrors) -> None:
    mirror, commit = await prepared(target, mirrors)
    log = target.path / ".git/logs" / REF
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    with pytest.raises(GitError) as caught:
        await mirror.push(commit, REF, expected=None)
    assert caught.value.reason == "repository_has_special_files"


@pytest.mark.parametrize("depth", ["directly", "through another file"])
async def test_configuration_that_includes_a_pipe_is_refused_at_once(
    target: Repository, mirrors: Mirrors, tmp_path: Path, depth: str
) -> None:
    pipe, between = tmp_path / "pipe", tmp_path / "between"
    os.mkfifo(pipe)
    between.write_text("[include]\n\tpath = pipe\n")
    included = pipe if depth == "directly" else between
    with (target.path / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {included}\n")
    with pytest.raises(GitError) as caught:
        await mirrors.open(target.url)
    assert caught.value.reason == "repository_has_special_files"


async def test_repository_in_shared_memory_is_one_like_any_other(target: Repository, mirrors: Mirrors) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place = shutil.copytree(target.path, Path(folder) / "project", symlinks=True)
        assert await (await mirrors.open(str(place))).resolve("main") == target.head()


@pytest.mark.parametrize("endless", ["/dev/zero", "/proc/kmsg"])
async def test_configuration_that_includes_a_file_of_the_kernel_is_refused_at_once(
    target: Repository, mirrors: Mirrors, endless: str
) -> None:
    with (target.path / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {endless}\n")
    with pytest.raises(GitError) as caught:
        await mirrors.open(target.url)
    assert caught.value.reason == "repository_has_special_files"


async def test_pipe_in_a_borrowed_object_store_is_refused_at_once(target: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "ab").mkdir(parents=True)
    os.mkfifo(store / "ab" / ("c" * 38))
    (target.path / ".git/objects/info").mkdir(exist_ok=True)
    (target.path / ".git/objects/info/alternates").write_text(f"{store}\n")
    with pytest.raises(GitError) as caught:
        await mirrors.open(target.url)
    assert caught.value.reason == "repository_has_special_files"


async def test_lock_that_the_repository_brings_along_is_not_waited_for(target: Repository, mirrors: Mirrors) -> None:
    mirror, commit = await prepared(target, mirrors)
    target.configure(core__filesRefLockTimeout="-1", core__packedRefsTimeout="-1")
    (target.path / ".git" / REF).parent.mkdir(parents=True)
    (target.path / ".git" / f"{REF}.lock").write_text("")
    with pytest.raises(GitError) as caught:
        await mirror.push(commit, REF, expected=None)
    assert caught.value.reason == "landing_refused"


async def test_pipe_that_is_planted_later_is_found(target: Repository, mirrors: Mirrors) -> None:
    """What was harmless is remembered by times that no program can set back."""
    mirror, _ = await prepared(target, mirrors)
    folder = target.path / ".git/objects"
    (found, *_) = [each for each in folder.iterdir() if len(each.name) == 2]
    planted = PlantedLinks()
    repository = find_repository(target.url)
    planted.refuse(repository, writing=True)
    facts = found.stat()
    os.mkfifo(found / ("f" * 38))
    os.utime(found, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(GitError):
        planted.refuse(repository, writing=True)
    with pytest.raises(GitError):
        await mirror.current("refs/heads/main")


def test_repository_that_git_packs_meanwhile_is_looked_at_to_the_end(target: Repository) -> None:
    """After a large commit git packs objects in the background, and takes the folders away that are empty then."""
    objects, over = target.path / ".git/objects", threading.Event()

    def pack() -> None:
        while not over.is_set():
            for digits in TWO_DIGITS:
                folder = objects / digits
                if not folder.exists():
                    folder.mkdir()
                    (folder / ("f" * 38)).touch()
                    (folder / ("f" * 38)).unlink()
                    folder.rmdir()

    packing = threading.Thread(target=pack)
    packing.start()
    try:
        repository = find_repository(target.url)
        for _ in range(300):
            PlantedLinks().refuse(repository, writing=True)
    finally:
        over.set()
        packing.join()
    (objects / "ff").mkdir(exist_ok=True)
    (objects / "ff" / ("f" * 38)).symlink_to("/etc/passwd")
    with pytest.raises(GitError):
        PlantedLinks().refuse(repository, writing=True)
