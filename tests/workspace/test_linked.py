"""Submodules and objects of Git LFS in workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import DeniedError, PatchError
from gatewright.git.changes import FileChange
from gatewright.git.linked import contents
from gatewright.git.linked.contents import linked_files
from gatewright.git.linked.submodules import parse_modules, resolve_url
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.workspace import Workspaces
from tests.git.repositories import Repository
from tests.workspace.linked_repositories import (
    LFS_ATTRIBUTES,
    add_submodule,
    bump,
    new_repository,
    pointer,
    store_object,
    update_submodules,
)
from tests.workspace.shells import Shell

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def library(tmp_path: Path) -> Repository:
    made = new_repository(tmp_path / "library")
    made.commit({"lib.py": b"one\n", "deep/x.txt": b"x\n", "old.txt": b"old\n"})
    return made


@pytest.fixture
def outer(tmp_path: Path, library: Repository) -> Repository:
    made = new_repository(tmp_path / "outer")
    made.commit({"app.py": b"app\n"})
    add_submodule(made, library, "vendor/lib")
    return made


@pytest.fixture
def media(tmp_path: Path) -> Repository:
    """A repository whose only binary file is an object of Git LFS, in its store."""
    made = new_repository(tmp_path / "media")
    made.commit({".gitattributes": LFS_ATTRIBUTES, "a.bin": pointer(CONTENT), "plain.txt": pointer(CONTENT)})
    store_object(made.path / ".git/lfs", CONTENT)
    return made


async def opened(repository: Repository) -> Mirror:
    return await Mirrors(repository.home / "mirrors").open(repository.url)


async def refusal(repository: Repository, code: str) -> str:
    mirror = await opened(repository)
    with pytest.raises(DeniedError) as caught:
        await linked_files(mirror, await mirror.resolve("HEAD"))
    assert caught.value.reason == code
    return caught.value.message


async def test_submodule_has_its_contents(workspaces: Workspaces, outer: Repository, shell: Shell) -> None:
    mirror = await opened(outer)
    async with workspaces.open(mirror, await mirror.resolve("HEAD")) as workspace:
        done = await shell(workspace, "cat vendor/lib/lib.py vendor/lib/deep/x.txt app.py")
        assert done.stdout == b"one\nx\napp\n"
        assert await workspace.changes() == ()


async def test_moved_submodule_shows_the_new_commit(
    workspaces: Workspaces, outer: Repository, library: Repository, shell: Shell
) -> None:
    mirror = await opened(outer)
    before = await mirror.resolve("HEAD")
    newer = library.commit({"lib.py": b"two\n", "new/y.txt": b"y\n", "old.txt": None, "deep/x.txt": None})
    outer.git("-C", "vendor/lib", "fetch", "--quiet")
    after = await mirror.tree_of(await mirror.resolve(bump(outer, "vendor/lib", newer)))
    async with workspaces.open(mirror, before, after) as workspace:
        done = await shell(workspace, "cat vendor/lib/lib.py vendor/lib/new/y.txt; cd vendor/lib; ls -R")
        assert done.stdout.startswith(b"two\ny\n")
        assert b"old.txt" not in done.stdout
        assert b"deep" not in done.stdout
        assert await workspace.changes() == ()


@pytest.mark.parametrize("instead", ["nothing", "file", "folder"])
async def test_removed_submodule_is_not_shown(workspaces: Workspaces, outer: Repository, shell: Shell, instead: str) -> None:
    mirror = await opened(outer)
    before = await mirror.resolve("HEAD")
    outer.git("rm", "--quiet", "vendor/lib")
    files = {"nothing": {}, "file": {"vendor/lib": b"f\n"}, "folder": {"vendor/lib/own.txt": b"own\n"}}[instead]
    after = await mirror.tree_of(await mirror.resolve(outer.commit(dict(files))))
    expected = {"nothing": b"", "file": b"vendor/lib\n", "folder": b"vendor/lib/own.txt\n"}[instead]
    async with workspaces.open(mirror, before, after) as workspace:
        done = await shell(workspace, "find vendor -type f 2>/dev/null || true")
        assert done.stdout == expected


async def test_nested_submodule_has_its_contents(
    overlays: Workspaces, tmp_path: Path, library: Repository, shell: Shell
) -> None:
    middle, top = new_repository(tmp_path / "middle"), new_repository(tmp_path / "top")
    add_submodule(middle, library, "inner")
    add_submodule(top, middle, "middle")
    await refusal(top, "submodule_missing")
    update_submodules(top)
    mirror = await opened(top)
    async with overlays.open(mirror, await mirror.resolve("HEAD")) as workspace:
        assert (await shell(workspace, "cat middle/inner/lib.py")).stdout == b"one\n"


async def test_linked_worktree_shows_its_submodules(
    overlays: Workspaces, outer: Repository, tmp_path: Path, shell: Shell
) -> None:
    outer.git("worktree", "add", "--quiet", str(tmp_path / "tree"))
    tree = Repository(tmp_path / "tree", tmp_path / "home-of-tree")
    tree.home.mkdir()
    mirror = await opened(tree)
    async with overlays.open(mirror, await mirror.resolve("HEAD")) as workspace:
        assert (await shell(workspace, "cat vendor/lib/lib.py")).stdout == b"one\n"


async def test_masked_file_of_a_submodule_is_hidden(
    workspaces: Workspaces, outer: Repository, library: Repository, shell: Shell
) -> None:
    newer = library.commit({".env": b"secret\n"})
    outer.git("-C", "vendor/lib", "fetch", "--quiet")
    bump(outer, "vendor/lib", newer)
    mirror = await opened(outer)
    commit = await mirror.resolve("HEAD")
    tree = await mirror.tree_of(commit)
    async with workspaces.open(mirror, commit, tree, is_hidden=lambda path: path.endswith(b".env")) as workspace:
        await shell(workspace, "test -f vendor/lib/lib.py; test ! -e vendor/lib/.env")


async def test_missing_submodule_names_the_command(outer: Repository, tmp_path: Path) -> None:
    clone = Repository(tmp_path / "clone", outer.home)
    outer.git("clone", "--quiet", outer.url, str(clone.path))
    words = await refusal(clone, "submodule_missing")
    assert f"git -C {clone.url} submodule update --init vendor/lib" in words
    assert outer.git("rev-parse", "HEAD:vendor/lib").decode().strip() in words


@pytest.mark.parametrize("where", ["modules", "config"])
async def test_submodule_without_updates_stays_empty(
    overlays: Workspaces, outer: Repository, tmp_path: Path, where: str
) -> None:
    if where == "modules":
        outer.git("config", "--file", ".gitmodules", "submodule.vendor/lib.update", "none")
        outer.commit({})
    clone = Repository(tmp_path / "clone", outer.home)
    outer.git("clone", "--quiet", outer.url, str(clone.path))
    if where == "config":
        clone.git("config", "submodule.vendor/lib.update", "none")
    mirror = await opened(clone)
    assert await linked_files(mirror, await mirror.resolve("HEAD")) == ()


@pytest.mark.parametrize("change", [FileChange(b"vendor/lib/lib.py", None), FileChange(b"vendor/lib/n/x", "100644", b"x")])
async def test_change_inside_a_submodule_is_refused(outer: Repository, change: FileChange) -> None:
    mirror = await opened(outer)
    with pytest.raises(DeniedError) as caught:
        await mirror.write_tree(await mirror.resolve("HEAD"), [change])
    assert caught.value.reason == "submodule_changed"
    assert "submodule vendor/lib" in caught.value.message


@pytest.mark.parametrize(
    "patch",
    [
        b"--- a/vendor/lib/lib.py\n+++ b/vendor/lib/lib.py\n@@ -1 +1 @@\n-one\n+two\n",
        b"--- /dev/null\n+++ b/vendor/lib/new.py\n@@ -0,0 +1 @@\n+two\n",
    ],
)
async def test_patch_inside_a_submodule_is_refused(outer: Repository, patch: bytes) -> None:
    mirror = await opened(outer)
    with pytest.raises(PatchError) as caught:
        await mirror.apply(await mirror.resolve("HEAD"), patch)
    assert caught.value.reason == "submodule_changed"


HOSTILE = {
    "name leads out": ("../../x", "sub", "https://h/x"),
    "name is above": ("..", "sub", "https://h/x"),
    "name in backslashes": ("..\\x", "sub", "https://h/x"),
    "path leads out": ("sub", "../sub", "https://h/x"),
    "path is absolute": ("sub", "/etc", "https://h/x"),
    "path in the git folder": ("sub", ".git/hooks", "https://h/x"),
    "path is an option": ("sub", "-x", "https://h/x"),
    "address is an option": ("sub", "sub", "-u./payload"),
    "address is a command": ("sub", "sub", "ext::sh -c true"),
}


@pytest.mark.parametrize(("name", "path", "url"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_gitmodules_are_refused(name: str, path: str, url: str) -> None:
    key = f"submodule.{name}"
    with pytest.raises(DeniedError) as caught:
        parse_modules([(f"{key}.path", path), (f"{key}.url", url)])
    assert caught.value.reason == "submodule_unsafe"


def test_two_submodules_of_one_path_are_refused() -> None:
    with pytest.raises(DeniedError) as caught:
        parse_modules([("submodule.a.path", "sub"), ("submodule.b.path", "sub")])
    assert caught.value.reason == "submodule_unsafe"


RESOLVED = {
    ("https://h/team/app.git", "../lib.git"): "https://h/team/lib.git",
    ("https://h/team/app.git", "./lib.git"): "https://h/team/app.git/lib.git",
    ("https://h/team/app", "../../other/lib"): "https://h/other/lib",
    ("git@h:team/app.git", "../lib.git"): "git@h:team/lib.git",
    ("git@h:app.git", "../lib.git"): "git@h:lib.git",
    ("https://h/a", "https://other/b"): "https://other/b",
}


@pytest.mark.parametrize(("base", "url", "expected"), [(*key, value) for key, value in RESOLVED.items()])
def test_relative_address_is_resolved_as_git_does(base: str, url: str, expected: str) -> None:
    assert resolve_url(base, url) == expected


async def test_unreadable_gitmodules_are_refused(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "hostile")
    first = repository.commit({"a": b"a\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{first},sub")
    (repository.path / ".gitmodules").write_bytes(b"[submodule\n")
    repository.git("update-index", "--add", ".gitmodules")
    repository.git("commit", "--quiet", "-m", "unreadable")
    await refusal(repository, "submodule_unsafe")


@pytest.mark.parametrize("place", [".git/modules/vendor/lib", "vendor/lib"])
async def test_link_in_place_of_a_submodule_is_not_followed(outer: Repository, library: Repository, place: str) -> None:
    """Another repository of the host that has the commit is not shown by a link."""
    for each in (".git/modules/vendor/lib", "vendor/lib"):
        (outer.path / each).rename(outer.path.with_name(each.replace("/", "-")))
    (outer.path / place).symlink_to(library.path / ".git" if place.startswith(".git") else library.path)
    await refusal(outer, "submodule_missing")


async def test_too_many_submodules_are_refused(outer: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_SUBMODULES", 0)
    await refusal(outer, "submodule_unsafe")


async def test_submodules_too_deep_are_refused(outer: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_DEPTH", 0)
    await refusal(outer, "submodule_unsafe")


async def test_too_large_contents_are_refused(outer: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_BYTES", 9)
    await refusal(outer, "linked_contents_too_large")


async def test_objects_of_lfs_replace_pointers(workspaces: Workspaces, media: Repository, shell: Shell) -> None:
    mirror = await opened(media)
    async with workspaces.open(mirror, await mirror.resolve("HEAD")) as workspace:
        await shell(workspace, "test $(wc -c < a.bin) = 2048; grep -q oid plain.txt; cp a.bin b; mv b a.bin")
        assert await workspace.changes() == ()


async def test_new_pointer_shows_its_object(workspaces: Workspaces, media: Repository, shell: Shell) -> None:
    mirror = await opened(media)
    before = await mirror.resolve("HEAD")
    store_object(media.path / ".git/lfs", b"newer")
    after = await mirror.tree_of(await mirror.resolve(media.commit({"a.bin": pointer(b"newer"), "b.bin": pointer(CONTENT)})))
    async with workspaces.open(mirror, before, after) as workspace:
        done = await shell(workspace, "cat a.bin; wc -c < b.bin")
        assert done.stdout == b"newer2048\n"
        assert await workspace.changes() == ()


async def test_pointer_without_attribute_is_shown_again(workspaces: Workspaces, media: Repository, shell: Shell) -> None:
    mirror = await opened(media)
    before = await mirror.resolve("HEAD")
    after = await mirror.tree_of(await mirror.resolve(media.commit({".gitattributes": b""})))
    async with workspaces.open(mirror, before, after) as workspace:
        assert (await shell(workspace, "cat a.bin")).stdout == pointer(CONTENT)


async def test_storage_of_lfs_is_configurable(media: Repository, tmp_path: Path) -> None:
    (media.path / ".git/lfs").rename(tmp_path / "elsewhere")
    await refusal(media, "lfs_object_missing")
    media.git("config", "lfs.storage", str(tmp_path / "elsewhere"))
    mirror = await opened(media)
    assert [each.path for each in await linked_files(mirror, await mirror.resolve("HEAD"))] == [b"a.bin"]


@pytest.mark.parametrize("where", ["config", "file"])
async def test_excluded_objects_stay_pointers(media: Repository, where: str) -> None:
    store_object(media.path / ".git/lfs", CONTENT).unlink()
    assert "git -C" in await refusal(media, "lfs_object_missing")
    if where == "config":
        media.git("config", "lfs.fetchexclude", "docs/, *.bin")
    else:
        media.commit({".lfsconfig": b"[lfs]\n\tfetchexclude = *.bin\n"})
    mirror = await opened(media)
    assert await linked_files(mirror, await mirror.resolve("HEAD")) == ()


async def test_damaged_object_is_not_shown(media: Repository, tmp_path: Path) -> None:
    copies = Workspaces(tmp_path / "copies", overlay=False)  # a shared one may hold this tree from another test
    store_object(media.path / ".git/lfs", CONTENT).write_bytes(CONTENT[::-1])
    mirror = await opened(media)
    with pytest.raises(DeniedError) as caught:
        async with copies.open(mirror, await mirror.resolve("HEAD")):
            pass
    assert caught.value.reason == "lfs_object_missing"


async def test_link_in_place_of_an_object_is_not_followed(media: Repository, tmp_path: Path) -> None:
    place = store_object(media.path / ".git/lfs", CONTENT)
    place.rename(tmp_path / "object")
    place.symlink_to(tmp_path / "object")
    await refusal(media, "lfs_object_missing")


async def test_submodule_has_its_own_lfs_objects(overlays: Workspaces, media: Repository, tmp_path: Path, shell: Shell) -> None:
    top = new_repository(tmp_path / "top")
    add_submodule(top, media, "media")
    await refusal(top, "lfs_object_missing")
    store_object(top.path / ".git/modules/media/lfs", CONTENT)
    mirror = await opened(top)
    async with overlays.open(mirror, await mirror.resolve("HEAD")) as workspace:
        assert (await shell(workspace, "wc -c < media/a.bin")).stdout == b"2048\n"
