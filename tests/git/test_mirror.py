"""Mirrors: which commit a name means, what is fetched, and that it stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.changes import FileChange, TreeEntry
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirrors
from gatewright.git.modes import DIRECTORY
from gatewright.git.objects import Objects
from tests.git.repositories import MakeRepository, Repository

ABSENT = "0123456789abcdef0123456789abcdef01234567"


async def test_every_kind_of_name_leads_to_its_commit(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    first = repository.head()
    repository.git("tag", "light")
    repository.git("tag", "-a", "-m", "x", "annotated")
    repository.git("tag", "-a", "-m", "x", "tag-of-tag", "annotated")
    repository.git("branch", "feature/one")
    repository.git("update-ref", "refs/pull/7/head", first)
    second = repository.commit({"b": b"b\n"})
    mirror = await mirrors.open(repository.url)
    for name in (
        "light",
        "annotated",
        "tag-of-tag",
        "refs/tags/annotated",
        "feature/one",
        "refs/pull/7/head",
        first,
        first.upper(),
    ):
        assert await mirror.resolve(name) == first, name
    for name in ("HEAD", "main", "refs/heads/main", second):
        assert await mirror.resolve(name) == second, name
    tag = repository.git("rev-parse", "annotated").decode().strip()
    assert await mirror.resolve(tag) == first


async def test_branch_that_moved_is_seen(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    old = await mirror.resolve("main")
    new = repository.commit({"b": b"b\n"})
    assert await mirror.resolve("main") == new != old
    assert await mirror.tree_of(old) != await mirror.tree_of(new)


async def test_detached_head_and_bare_and_linked_repositories_are_read(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    repository = make_repository()
    commit = repository.head()
    repository.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    repository.git("clone", "--quiet", "--bare", repository.url, str(tmp_path / "bare.git"))
    repository.git("checkout", "--quiet", "--detach")
    for path in (repository.path, tmp_path / "linked", tmp_path / "bare.git"):
        mirror = await mirrors.open(path.as_uri())
        assert await mirror.resolve("HEAD") == commit


async def test_commit_that_no_ref_names_is_fetched_by_its_id(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    lost = repository.commit({"b": b"b\n"})
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    mirror = await mirrors.open(repository.url)
    assert await mirror.resolve(lost) == lost


async def test_name_that_is_a_branch_and_a_tag_is_refused(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    repository.git("tag", "main")
    assert await mirror.resolve("main") == repository.head()
    repository.commit({"b": b"b\n"})
    with pytest.raises(MalformedError) as caught:
        await mirror.resolve("main")
    assert caught.value.reason == "bad_ref"
    assert await mirror.resolve("refs/heads/main") == repository.head("refs/heads/main")


async def test_ref_that_ends_like_the_wanted_one_is_not_taken(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    repository.git("update-ref", "refs/evil/refs/heads/release", repository.head())
    repository.git("update-ref", "refs/heads/refs/heads/release", repository.head())
    with pytest.raises(GitError) as caught:
        await (await mirrors.open(repository.url)).resolve("release")
    assert caught.value.reason == "ref_not_found"


@pytest.mark.parametrize("name", ["nowhere", "refs/heads/nowhere", ABSENT, "0" * 40, "ab" * 32, "README.md"])
async def test_unknown_name_is_not_found(make_repository: MakeRepository, mirrors: Mirrors, name: str) -> None:
    mirror = await mirrors.open(make_repository().url)
    with pytest.raises(GitError) as caught:
        await mirror.resolve(name)
    assert caught.value.reason == "ref_not_found"


async def test_tree_and_blob_are_no_commit(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    blob = repository.git("rev-parse", "HEAD:README.md").decode().strip()
    tree = repository.git("rev-parse", "HEAD^{tree}").decode().strip()
    repository.git("tag", "picture", blob)
    mirror = await mirrors.open(repository.url)
    for name in ("picture", blob, tree):
        with pytest.raises(GitError) as caught:
            await mirror.resolve(name)
        assert caught.value.reason == "ref_not_found"


@pytest.mark.parametrize("name", ["-h", "--all", "main~0", "main^{commit}", "main:README.md", "a b", "@{u}"])
async def test_option_or_expression_never_reaches_git(make_repository: MakeRepository, mirrors: Mirrors, name: str) -> None:
    mirror = await mirrors.open(make_repository().url)
    with pytest.raises(MalformedError) as caught:
        await mirror.resolve(name)
    assert caught.value.reason == "bad_ref"


async def test_fetched_commit_outlives_the_branch_and_a_clean_up(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    repository.git("checkout", "--quiet", "-b", "gone")
    commit = repository.commit({"b": b"b\n"})
    mirror = await mirrors.open(repository.url)
    await mirror.resolve("gone")
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "--quiet", "-D", "gone")
    repository.git("gc", "--quiet", "--prune=now")
    await GitCommand(mirror.path).run("reflog", "expire", "--expire=now", "--all")
    await GitCommand(mirror.path).run("gc", "--quiet", "--prune=now")
    again = await Mirrors(mirror.path.parent).open(repository.url)
    await again.ensure(commit)
    assert [entry.path for entry in await again.files(commit, ("b",))] == [b"b"]


async def test_commit_at_hand_is_had_without_the_repository(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    commit = await mirror.resolve("main")
    shutil.rmtree(repository.path)
    again = await Mirrors(mirror.path.parent).open(repository.url)
    await again.ensure(commit)
    assert await again.resolve(commit) == commit
    with pytest.raises(GitError) as caught:
        await again.resolve("main")
    assert caught.value.reason == "repository_unreadable"


async def test_commit_without_its_files_is_fetched_again(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    """What a fetch that was cut off leaves behind: an object, but not what it needs, and no ref."""
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    body = repository.git("cat-file", "commit", "HEAD")
    assert (
        await GitCommand(mirror.path).run("hash-object", "-w", "-t", "commit", "--stdin", stdin=body)
    ).decode().strip() == repository.head()
    await mirror.ensure(repository.head())
    assert {entry.path for entry in await mirror.files(repository.head())} == {b"README.md", b"src/app.py"}


async def test_lock_of_a_killed_fetch_does_not_stop_the_next(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    stale = mirror.path / "refs" / "gate" / "keep" / f"{repository.head()}.lock"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert await mirror.resolve("main") == repository.head()


async def test_sha256_repository_has_a_sha256_mirror(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository(sha256=True)
    mirror = await mirrors.open(repository.url)
    commit = await mirror.resolve("main")
    assert len(commit) == 64
    tree = await mirror.write_tree(commit, [FileChange(b"new", "100644", b"x\n")])
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree


async def test_shallow_clone_is_good_enough(make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path) -> None:
    repository = make_repository()
    for number in range(3):
        repository.commit({"n": b"%d\n" % number})
    repository.git("clone", "--quiet", "--depth=1", repository.path.as_uri(), str(tmp_path / "shallow"))
    mirror = await mirrors.open(str(tmp_path / "shallow"))
    assert await mirror.resolve("main") == repository.head()
    assert len(await mirror.files(repository.head())) == 3


def partial_clone(whole: Repository, path: Path, *options: str) -> Repository:
    """A clone of ``whole`` that has left contents with it, under the name ``origin``."""
    whole.configure(uploadpack__allowFilter="true", uploadpack__allowAnySHA1InWant="true")
    whole.git("clone", "--quiet", *options, f"file://{whole.path}", str(path))
    return Repository(path, whole.home)


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
async def test_partial_clone_gives_what_it_has_and_is_landed_on(
    left_out: str, make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    whole = make_repository(files={"gone.txt": b"of the past\n", "kept.txt": b"one\n"})
    commit = whole.commit({"gone.txt": None, "kept.txt": b"two\n"})
    clone = partial_clone(whole, tmp_path / "partial", f"--filter={left_out}")
    whole.path.rename(tmp_path / "away")
    mirror = await mirrors.open(clone.url)
    assert await mirror.resolve("HEAD") == commit
    tree = await mirror.write_tree(commit, [FileChange(b"new.txt", "100644", b"new\n")])
    landed = await mirror.commit_tree(tree, parent=commit, message="new", when=datetime(2026, 1, 1, tzinfo=UTC))
    await mirror.push(landed, "refs/heads/landed", expected=None)
    assert clone.head("landed") == landed
    assert clone.git("log", "--format=%s", "landed").count(b"\n") == 3


async def test_partial_clone_without_files_is_refused_without_contacting_its_remote(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    whole = make_repository(files={"kept.txt": b"one\n"})
    clone = partial_clone(whole, tmp_path / "partial", "--filter=blob:none", "--no-checkout")
    mirror = await mirrors.open(clone.url)
    before = sorted(clone.path.rglob("*"))
    with pytest.raises(GitError) as refused:
        await mirror.resolve("HEAD")
    assert refused.value.reason == "repository_partial"
    assert sorted(clone.path.rglob("*")) == before
    clone.git("archive", "--output=/dev/null", "HEAD")
    assert await mirror.resolve("HEAD") == whole.head()


@pytest.mark.parametrize("kind", ["missing", "file", "directory"])
async def test_address_without_a_repository_is_unreadable(mirrors: Mirrors, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("x")
    elif kind == "directory":
        place.mkdir()
    with pytest.raises(GitError) as caught:
        await mirrors.open(str(place))
    assert caught.value.reason == "repository_unreadable"
    assert not list((tmp_path / "mirrors").glob("*.git")) + list((tmp_path / "mirrors").glob("new-*"))


async def test_repository_without_commits_is_named_so(
    make_repository: MakeRepository, mirrors: Mirrors, tmp_path: Path
) -> None:
    make_repository().git("init", "--quiet", str(tmp_path / "empty"))
    with pytest.raises(GitError) as caught:
        await mirrors.open(str(tmp_path / "empty"))
    assert caught.value.reason == "repository_empty"


async def test_mirror_root_that_cannot_be_written_is_no_foreign_error(make_repository: MakeRepository, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(GitError):
        await Mirrors(tmp_path / "taken").open(make_repository().url)


async def test_files_are_listed_with_sizes_and_taken_literally(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository(files={"a*": b"star\n", "ab": b"x", "src/one": b"1\n", "src2/two": b"2\n"})
    mirror = await mirrors.open(repository.url)
    commit = await mirror.resolve("main")
    assert [(entry.path, entry.size) for entry in await mirror.files(commit)] == [
        (b"a*", 5),
        (b"ab", 1),
        (b"src/one", 2),
        (b"src2/two", 2),
    ]
    for path, found in {"a*": [b"a*"], "src": [b"src/one"], ":(glob)**": [], "--": [], "nowhere": []}.items():
        assert [entry.path for entry in await mirror.files(await mirror.tree_of(commit), (path,))] == found, path
    for path in ("", "a\0b"):
        with pytest.raises(MalformedError):
            await mirror.files(commit, (path,))


def _trees_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trees that git is asked to list from now on."""
    asked: list[str] = []
    whole = Objects.files

    def counted(objects: Objects, tree: str, paths: Sequence[str]) -> tuple[TreeEntry, ...]:
        asked.append(tree)
        return whole(objects, tree, paths)

    monkeypatch.setattr(Objects, "files", counted)
    return asked


async def test_what_a_change_leaves_is_listed_as_git_would(
    make_repository: MakeRepository, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = {"a/b": b"1", "a/c/d": b"22", "a.b": b"333", "a-b": b"4", "gone/x": b"5", "was/folder": b"6", "file": b"7"}
    repository = make_repository(files=begun)
    (repository.path / "link").symlink_to("file")
    first = repository.commit({"run": b"#!/bin/sh\n"})
    mirror = await mirrors.open(repository.url)
    await mirror.ensure(first)
    wanted = [
        FileChange(b"gone", None),
        FileChange(b"was", "100644", b"a file now"),
        FileChange(b"file", None),
        FileChange(b"file/below", "100644", b"a folder now"),
        FileChange(b"run", "100755", b"#!/bin/sh\n"),
        FileChange(b"link", "120000", b"elsewhere"),
        FileChange(b"a/c/d", "100644", b"22"),
        FileChange(b"a0", "100644", b""),
        FileChange(b"\xff\xfe", "100644", b"no UTF-8"),
    ]
    tree = await mirror.write_tree(first, wanted)
    assert await mirror.changes(first, tree)
    await mirror.files(first)
    asked = _trees_read(monkeypatch)
    listing = await mirror.listing(tree)
    assert await mirror.files(tree) == listing.entries
    assert asked == []
    assert listing.entries == await (await Mirrors(mirror.path.parent).open(repository.url)).files(tree)
    assert asked == [tree]
    assert listing.names == {entry.path.decode() for entry in listing.entries if entry.path != b"\xff\xfe"}


async def test_no_more_files_are_remembered_than_there_is_room_for(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatewright.git.mirror._REMEMBERED_FILES", 5)
    mirrors = Mirrors(tmp_path / "mirrors")
    first, second = (make_repository(name, files={"a": b"1", "b": b"2"}) for name in ("first", "second"))
    commits = {source.url: source.commit({"c": b"3"}) for source in (first, second)}
    asked = _trees_read(monkeypatch)
    for source, times in ((first, 2), (second, 2), (first, 1)):
        mirror = await mirrors.open(source.url)
        await mirror.ensure(commits[source.url])
        for _ in range(times):
            assert len(await mirror.files(commits[source.url])) >= 3
    assert len(asked) == 3


async def test_blobs_come_byte_for_byte(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    contents = {
        "crlf": b"a\r\nb\r\n",
        "none": b"",
        "binary": bytes(range(256)) * 10,
        "looks like a header": b"0123 blob 5\nx\n",
    }
    mirror = await mirrors.open(make_repository(files=contents).url)
    entries = await mirror.files(await mirror.resolve("main"))
    found = await mirror.blobs(entry.object_id for entry in entries)
    assert {entry.path.decode(): found[entry.object_id] for entry in entries} == contents
    assert await mirror.blobs([]) == {}
    assert await mirror.blob(entries[0].object_id) == contents["binary"]


async def test_blob_that_is_not_there_is_missing(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(make_repository().url)
    for object_id in (ABSENT, await mirror.resolve("main")):
        with pytest.raises(GitError) as caught:
            await mirror.blob(object_id)
        assert caught.value.reason == "object_missing"
    with pytest.raises(MalformedError):
        await mirror.blob("HEAD:README.md")
    patch = b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-read me\n+x\n"
    for unknown in (mirror.tree_of(ABSENT), mirror.apply(ABSENT, patch), mirror.apply_to_tree(ABSENT, patch)):
        with pytest.raises(GitError) as caught:
            await unknown
        assert caught.value.reason == "object_missing"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_repository_of_another_user_is_read(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    commit = repository.head()
    for path in (repository.path, *repository.path.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    mirror = await mirrors.open(repository.url)
    assert await mirror.resolve("HEAD") == commit
    # That user cannot go into the folders of these tests, and root writes there for nobody else.
    with pytest.raises(GitError) as refused:
        await mirror.push(commit, "refs/heads/landed", expected=None)
    assert refused.value.reason == "target_not_own"


async def test_a_directory_that_is_written_with_a_padded_mode_is_a_directory(
    make_repository: MakeRepository, mirrors: Mirrors
) -> None:
    """As git reads it: a link that leads through such a directory, or a name that collides in it, would not be seen."""
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    tree = await mirror.tree_of(await mirror.resolve("main"))
    source = next(node for node in (await mirror.directories([tree]))[tree] if node.name == b"src")
    padded = b"040000 src\0" + bytes.fromhex(source.object_id)
    made = await GitCommand(mirror.path).run("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=padded)
    tree = made.decode().strip()
    assert (await mirror.directories([tree]))[tree] == (source,)
    assert source.mode == DIRECTORY
