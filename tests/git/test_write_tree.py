"""Trees from changes, and that every change survives the way over a patch byte for byte."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.contracts.vocabulary import Person
from gatewright.errors import DeniedError, GitError, MalformedError
from gatewright.git.changes import FileChange, parse_changes, parse_entries, parse_objects
from gatewright.git.command import GitCommand
from gatewright.git.paths import path_fault
from tests.git.repositories import Known

ODD_NAMES = [
    b"new\nline",
    b"tab\there",
    b'quote"quote',
    b"back\\slash",
    b"not utf-8 \xff\xfe",
    "ünïcödé/日本".encode(),
    b" leading and trailing ",
    b"-dash/--option",
    b":(glob)*",
    b"a b/c d",
    b"\x01\x1b[31m",
    b"deep/" * 20 + b"file",
    b"#comment",
    b"=>",
    b"dev/null",
    b"x" * 255,
]


@pytest.fixture(scope="module")
def start(known: Known) -> Known:
    """The known mirror with a tree of its own; a tree serves wherever a commit does."""
    changes = [FileChange(name, "100644", b"%s\n" % name) for name in (b"keep", b"dir/a", b"dir/b", b"file")]
    removed = [FileChange(name, None) for name in (b"README.md", b"src")]
    return Known(known.mirror, asyncio.run(known.mirror.write_tree(known.commit, [*changes, *removed])))


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_odd_name_survives_byte_for_byte(start: Known, name: bytes) -> None:
    mirror, commit = start.mirror, start.commit
    tree = await mirror.write_tree(commit, [FileChange(name, "100644", b"x\n"), FileChange(b"dir/a", "100755", b"a\n")])
    assert {change.path for change in await mirror.changes(commit, tree)} == {name, b"dir/a"}
    assert (await start.contents(tree))[name] == ("100644", b"x\n")
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree
    back = await mirror.diff(tree, commit)
    assert await mirror.apply_to_tree(tree, back) == commit


async def test_all_odd_names_together_survive(start: Known) -> None:
    mirror, commit = start.mirror, start.commit
    tree = await mirror.write_tree(commit, [FileChange(name, "100644", name) for name in ODD_NAMES])
    found = await start.contents(tree)
    assert {name: found[name][1] for name in ODD_NAMES} == {name: name for name in ODD_NAMES}
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree


@pytest.mark.parametrize(
    "path", [b".git/config", b"vendor/.git/HEAD", b"a/.GIT", b"git~1/x", b"../x", b"/x", b"a//b", b"", b"a/."]
)
@pytest.mark.parametrize("mode", ["100644", None])
async def test_path_that_git_must_not_hold_is_denied_by_name(start: Known, path: bytes, mode: str | None) -> None:
    with pytest.raises(DeniedError) as caught:
        await start.mirror.write_tree(start.commit, [FileChange(b"fine", "100644", b""), FileChange(path, mode)])
    assert caught.value.reason == "git_path"
    assert path.decode() in caught.value.message


async def test_gitmodules_as_a_symlink_is_denied(start: Known) -> None:
    with pytest.raises(DeniedError) as caught:
        await start.mirror.write_tree(start.commit, [FileChange(b".gitmodules", "120000", b"keep")])
    assert caught.value.reason == "git_path"


@pytest.mark.parametrize("mode", ["160000", "040000", "100664", "", "100644 inline x\nM"])
async def test_mode_that_is_no_file_is_refused(start: Known, mode: str) -> None:
    with pytest.raises(MalformedError) as caught:
        await start.mirror.write_tree(start.commit, [FileChange(b"x", mode, b"")])
    assert caught.value.reason == "bad_mode"


@pytest.mark.parametrize(
    "changes",
    [
        [FileChange(b"x", "100644", b"1"), FileChange(b"x", "100644", b"2")],
        [FileChange(b"x", "100644", b"1"), FileChange(b"x", None)],
        [FileChange(b"x", "100644", b"1"), FileChange(b"x/y/z", "100644", b"2")],
    ],
)
async def test_changes_that_contradict_each_other_are_refused(start: Known, changes: list[FileChange]) -> None:
    with pytest.raises(MalformedError) as caught:
        await start.mirror.write_tree(start.commit, changes)
    assert caught.value.reason == "bad_changes"


async def test_content_cannot_speak_to_git(start: Known) -> None:
    content = b"\nM 100644 inline injected\ndata 4\nevil\nD keep\nreset refs/heads/main\ndone\n"
    tree = await start.mirror.write_tree(start.commit, [FileChange(b"x", "100644", content)])
    found = await start.contents(tree)
    assert found[b"x"][1] == content
    assert b"injected" not in found
    assert b"keep" in found


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([FileChange(b"dir", None)], {b"file", b"keep"}),
        ([FileChange(b"dir", "100644", b"now a file")], {b"dir", b"file", b"keep"}),
        ([FileChange(b"file/below", "100644", b"x")], {b"dir/a", b"dir/b", b"file/below", b"keep"}),
        ([FileChange(b"file", None), FileChange(b"file/below", "100644", b"x")], {b"dir/a", b"dir/b", b"file/below", b"keep"}),
        ([FileChange(b"dir/a", None), FileChange(b"dir/b", None)], {b"file", b"keep"}),
        ([FileChange(b"nowhere", None), FileChange(b"dir/nowhere/x", None)], {b"dir/a", b"dir/b", b"file", b"keep"}),
        ([FileChange(name, None) for name in (b"dir", b"file", b"keep")], set()),
    ],
)
async def test_directories_and_files_make_room_for_each_other(
    start: Known, changes: list[FileChange], names: set[bytes]
) -> None:
    mirror, commit = start.mirror, start.commit
    for order in (changes, changes[::-1]):
        tree = await mirror.write_tree(commit, order)
        assert set(await start.contents(tree)) == names
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree


async def test_tree_is_a_start_as_good_as_a_commit(start: Known) -> None:
    mirror, commit = start.mirror, start.commit
    one = await mirror.write_tree(commit, [FileChange(b"one", "100644", b"1")])
    two = await mirror.write_tree(one, [FileChange(b"two", "120000", b"one")])
    assert two == await mirror.write_tree(commit, [FileChange(b"two", "120000", b"one"), FileChange(b"one", "100644", b"1")])
    assert await mirror.write_tree(commit, []) == await mirror.tree_of(commit)


async def test_building_a_tree_leaves_no_ref_and_no_report(known: Known) -> None:
    mirror, change = known.mirror, [FileChange(b"x", "100644", b"1")]
    await mirror.write_tree(known.commit, change)
    refs = (await GitCommand(mirror.path).run("for-each-ref", "--format=%(refname)")).decode().split()
    assert refs == [f"refs/gate/keep/{known.commit}"]
    with pytest.raises(GitError):
        await asyncio.to_thread(mirror._objects.write_tree, "ab" * 20, change)
    assert not list(mirror.path.glob("fast_import_crash*"))


async def test_same_commit_comes_from_the_same_arguments(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.write_tree(commit, [FileChange(b"x", "100644", b"1")])
    when = datetime(2026, 3, 1, 12, 0, 0, 999, tzinfo=UTC)
    one = await mirror.commit_tree(tree, parent=commit, message="Subject\n\nÜber -- --option\n", when=when)
    elsewhere = when.astimezone(timezone(timedelta(hours=5)))
    assert await mirror.commit_tree(tree, parent=commit, message="Subject\n\nÜber -- --option\n", when=elsewhere) == one
    text = (await GitCommand(mirror.path).run("cat-file", "commit", one)).decode()
    assert text == (
        f"tree {tree}\nparent {commit}\nauthor Gatewright <gatewright@localhost> 1772366400 +0000\n"
        "committer Gatewright <gatewright@localhost> 1772366400 +0000\n\nSubject\n\nÜber -- --option\n"
    )
    assert await mirror.tree_of(one) == tree
    with pytest.raises(MalformedError):
        await mirror.commit_tree(tree, parent=commit, message="a\0b", when=when)
    for name in ("Ada\ncommitter Eve", "Ada> <eve@evil.example", "A\0da", "Ada\r"):
        with pytest.raises(MalformedError, match="forge"):
            await mirror.commit_tree(
                tree, parent=commit, message="m", when=when, author=Person(name=name, email="ada@shop.example")
            )


PARTS = st.binary(min_size=1, max_size=6).filter(lambda part: b"/" not in part and path_fault(part) is None)
FILES = st.dictionaries(PARTS, st.tuples(st.sampled_from(["100644", "100755", "120000"]), st.binary(max_size=40)), max_size=8)


@settings(max_examples=15, deadline=None)
@given(one=FILES, other=FILES)
def test_any_two_trees_are_joined_by_their_patch(
    one: dict[bytes, tuple[str, bytes]], other: dict[bytes, tuple[str, bytes]], known: Known
) -> None:
    async def check() -> None:
        mirror, commit = known.mirror, known.commit
        files = [FileChange(path, mode, content) for path, (mode, content) in one.items()]
        old = await mirror.write_tree(commit, files)
        swapped = [FileChange(b"dir/" + path, mode, content) for path, (mode, content) in other.items()]
        new = await mirror.write_tree(old, [*swapped, *(FileChange(path, None) for path in list(one)[::2])])
        assert await mirror.apply_to_tree(old, await mirror.diff(old, new)) == new
        assert await mirror.apply_to_tree(new, await mirror.diff(new, old)) == old

    asyncio.run(check())


@pytest.mark.parametrize("output", [b":100644 100644 a b M\0path", b"x\0", b"warning\0path\0", b":1 2 3 4 M\0\0"])
def test_output_that_is_no_list_of_changes_is_an_error(output: bytes) -> None:
    with pytest.raises(GitError):
        parse_changes(output)


@pytest.mark.parametrize("output", [b"100644 blob abc 5\tpath", b"path\0", b"100644 blob abc\tpath\0"])
def test_output_that_is_no_list_of_files_is_an_error(output: bytes) -> None:
    with pytest.raises(GitError):
        parse_entries(output)


@pytest.mark.parametrize("output", [b"abc missing\n", b"abc tree 3\nxyz\n", b"no line end"])
def test_output_that_is_no_blob_is_an_error(output: bytes) -> None:
    with pytest.raises(GitError):
        dict(parse_objects(output, "blob"))
