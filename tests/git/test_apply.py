"""Patches from agents: honest ones give a tree, hostile ones a refusal, and none of them touches a file."""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError, PatchError
from gatewright.git import objects
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from tests.git.repositories import Known, MakeRepository


def new_file(path: str, content: str = "evil", mode: str = "100644") -> bytes:
    quoted = path.encode("unicode_escape").decode()
    return (
        f'diff --git "a/{quoted}" "b/{quoted}"\nnew file mode {mode}\nindex 0000000..1111111\n'
        f'--- /dev/null\n+++ "b/{quoted}"\n@@ -0,0 +1 @@\n+{content}\n\\ No newline at end of file\n'
    ).encode()


def binary_literal(size: int, data: bytes) -> bytes:
    """A git binary patch that adds ``bomb`` with ``data``; ``size`` is what it claims to unpack to."""
    name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    packed = zlib.compress(data, 9)
    lines = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    body = "".join(letters[len(line) - 1] + base64.b85encode(line, pad=True).decode() + "\n" for line in lines)
    head = f"diff --git a/bomb b/bomb\nnew file mode 100644\nindex {'0' * 40}..{name}\nGIT binary patch\nliteral {size}\n"
    return f"{head}{body}\nliteral 0\nHcmV?d00001\n\n".encode()


LINK_OUT = new_file("out", "/etc", "120000")
HOSTILE = {
    "traversal": new_file("../outside"),
    "traversal inside": new_file("src/../../outside"),
    "git configuration": new_file(".git/config"),
    "git configuration in capitals": new_file(".GIT/config"),
    "git configuration on NTFS": new_file("git~1/config"),
    "git configuration on HFS": new_file(".g\u200cit/config").replace(b"\\u200c", b"\\342\\200\\214"),
    "nested git hook": new_file("vendor/.git/hooks/post-checkout"),
    "symlink, then through it, in one patch": LINK_OUT + new_file("out/passwd"),
    "gitmodules as a symlink": new_file(".gitmodules", "src/app.py", "120000"),
    "file below a file": new_file("README.md/below"),
    "file in the place of a directory": new_file("src"),
    "file that exists": new_file("README.md"),
    "removal of what is not there": (
        b"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    ),
    "rename from outside": (
        b"diff --git a/../../etc/passwd b/stolen\nsimilarity index 100%\nrename from ../../etc/passwd\nrename to stolen\n"
    ),
    "copy from outside": b"diff --git a/../x b/stolen\nsimilarity index 100%\ncopy from ../x\ncopy to stolen\n",
    "rename to outside": (
        b"diff --git a/README.md b/../outside\nsimilarity index 100%\nrename from README.md\nrename to ../outside\n"
    ),
    "two names for one file": b"diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/src/app.py\n@@ -1 +1 @@\n-x\n+y\n",
    "other text than the baseline": b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-something else\n+x\n",
    "cut off": b"diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n@@ -1,5 +1,5 @@\n-read me\n",
    "no patch": b"I have made the change you asked for.\n",
    "nothing but a line end": b"\n",
    "binary without its content": (
        b"diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1234567\nBinary files /dev/null and b/x differ\n"
    ),
    "binary that is larger than it says": binary_literal(10, b"x" * 1000),
    "binary that claims to be enormous": binary_literal(1 << 40, b"x"),
    "directory as a file": new_file("x", mode="040000"),
    "directory as a file, written oddly": new_file("x", mode="+00040000"),
    "directory in the place of a file": b"diff --git a/README.md b/README.md\nold mode 100644\nnew mode 40000\n",
    "submodule under another mode": new_file("x", mode="040755"),
    "device": new_file("x", mode="020644"),
    "set-user-id": new_file("x", mode="104755"),
    "absolute path": b"--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+evil\n",
    "options": b"--- a/--help\n+++ b/--help\n@@ -1 +1 @@\n-x\n+y\n",
}


def everything(root: Path) -> set[Path]:
    """All files but git's own objects and the kept indexes; and where ``..`` leads to from the directory that git runs in."""
    found = {path for path in root.rglob("*") if path.is_file() and not {"objects", "gate"} & set(path.relative_to(root).parts)}
    return found | set(Path("/").glob("outside"))


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_patch_is_refused_and_writes_no_file(known: Known, name: str) -> None:
    before = everything(known.mirror.path)
    with pytest.raises(PatchError):
        await known.mirror.apply(known.commit, HOSTILE[name])
    assert everything(known.mirror.path) == before


async def test_patch_that_meets_an_assertion_of_git_is_refused(known: Known) -> None:
    """Found by fuzzing: git 2.39 aborts in check_preimage."""
    garbled = b"diff --git a/src/new.py b/src/new.py\nnew.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/new.py\n"
    with pytest.raises(PatchError):
        await known.mirror.apply(known.commit, garbled + b"@@ -0,0 +1 @@\n+x\n")


async def test_no_patch_is_blamed_for_a_store_that_git_cannot_write(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    mirror = await mirrors.open(repository.url)
    commit = repository.commit({})
    await mirror.ensure(commit)
    for number in range(256):
        folder = mirror.path / "objects" / f"{number:02x}"
        if not folder.exists():
            folder.symlink_to("nowhere")
    with pytest.raises(GitError, match="unable to create temporary file"):
        await mirror.apply(commit, b"".join(new_file(f"x{number}", f"{number}") for number in range(20)))


async def test_patch_through_a_symlink_of_the_baseline_is_refused(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    (repository.path / "out").symlink_to("/tmp")  # the attack needs a directory that exists
    mirror = await mirrors.open(repository.url)
    commit = repository.commit({})
    await mirror.ensure(commit)
    with pytest.raises(PatchError, match="beyond a symbolic link"):
        await mirror.apply(commit, new_file("out/gatewright-was-here"))


async def test_honest_binary_is_applied(known: Known) -> None:
    tree = await known.mirror.apply(known.commit, binary_literal(1000, bytes(1000)))
    assert (await known.contents(tree))[b"bomb"] == ("100644", bytes(1000))


async def test_compressed_bomb_is_refused(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "APPLY_MEMORY", 8 << 20)
    size = 64 << 20
    patch = binary_literal(size, bytes(size))
    assert len(patch) < 1 << 17
    with pytest.raises(PatchError, match="attempting to allocate"):
        await known.mirror.apply(known.commit, patch)


async def test_patch_beyond_the_limit_is_refused_unread(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PATCH_LIMIT", 100)
    with pytest.raises(PatchError) as caught:
        await known.mirror.apply(known.commit, new_file("x", "y" * 100))
    assert caught.value.reason == "patch_too_large"


async def test_candidate_beyond_the_limit_has_no_patch(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.apply(commit, new_file("x", "y" * 2000))
    monkeypatch.setattr(objects, "PATCH_LIMIT", 1000)
    with pytest.raises(PatchError) as caught:
        await mirror.diff(commit, tree)
    assert caught.value.reason == "patch_too_large"


async def test_empty_patch_changes_nothing(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    assert await mirror.apply(commit, b"") == await mirror.tree_of(commit)
    assert await mirror.changes(commit, await mirror.apply(commit, b"")) == ()
    assert await mirror.diff(commit, await mirror.apply(commit, b"")) == b""


async def test_submodule_link_is_shown_as_what_it_is(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.apply(commit, new_file("sub", f"Subproject commit {'1' * 40}", "160000"))
    (change,) = await mirror.changes(commit, tree)
    assert (change.path, change.status, change.new_mode, change.new_id) == (b"sub", "A", "160000", "1" * 40)
    assert (await mirror.files(tree, ("sub",)))[0].size == 0
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree


async def test_change_of_mode_alone_is_shown(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.apply(commit, b"diff --git a/README.md b/README.md\nold mode 100644\nnew mode 100755\n")
    (change,) = await mirror.changes(commit, tree)
    assert (change.status, change.old_mode, change.new_mode) == ("M", "100644", "100755")
    assert change.old_id == change.new_id


async def test_file_turned_into_a_symlink_is_a_change_of_type(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.write_tree(commit, [FileChange(b"README.md", "120000", b"/etc/passwd")])
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree
    (change,) = await mirror.changes(commit, tree)
    assert (change.status, change.new_mode) == ("T", "120000")


async def test_rename_is_a_deletion_and_an_addition(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    patch = b"diff --git a/src/app.py b/lib/app.py\nsimilarity index 100%\nrename from src/app.py\nrename to lib/app.py\n"
    changes = await mirror.changes(commit, await mirror.apply(commit, patch))
    assert [(change.status, change.path) for change in changes] == [("A", b"lib/app.py"), ("D", b"src/app.py")]


async def test_line_ends_survive_any_attributes(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    repository.configure(core__autocrlf="true")
    mirror = await mirrors.open(repository.url)
    commit = await mirror.resolve("main")
    files = {b".gitattributes": b"* text=auto eol=lf\n", b"dos.txt": b"a\r\nb\r\n", b"mixed.txt": b"a\nb\r\nc"}
    tree = await mirror.write_tree(commit, [FileChange(path, "100644", content) for path, content in files.items()])
    assert await mirror.apply(commit, await mirror.diff(commit, tree)) == tree
    edited = await mirror.write_tree(tree, [FileChange(b"dos.txt", "100644", b"a\r\nB\r\n")])
    assert await mirror.apply_to_tree(tree, await mirror.diff(tree, edited)) == edited


async def test_disjoint_patches_compose_in_any_order(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    patches = [new_file(f"part{number}/x") for number in range(3)]
    trees = set()
    for order in (patches, patches[::-1]):
        tree = await mirror.tree_of(commit)
        for patch in order:
            tree = await mirror.apply_to_tree(tree, patch)
        trees.add(tree)
    assert trees == {await mirror.apply(commit, b"".join(patches))}


async def test_damaged_index_is_not_blamed_on_the_patch(known: Known) -> None:
    mirror, commit = known.mirror, known.commit
    tree = await mirror.apply(commit, new_file("x"))
    for kept in (mirror.path / "gate").iterdir():
        if len(kept.name) == 40:
            kept.write_bytes(b"")
    assert await mirror.apply(commit, new_file("x")) == tree


async def test_kept_indexes_do_not_pile_up(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatewright.git.index_cache._KEPT", 3)
    mirror, commit = known.mirror, known.commit
    for number in range(6):
        await mirror.apply(commit, new_file(f"file{number}"))
    left = list((mirror.path / "gate").iterdir())
    assert len(left) <= 4
    assert await mirror.apply(commit, new_file("file0")) == await mirror.apply(commit, new_file("file0"))


async def test_short_name_for_a_baseline_is_refused(known: Known) -> None:
    mirror = known.mirror
    for name in ("main", "HEAD", "--help", ""):
        with pytest.raises(MalformedError):
            await mirror.apply(name, b"")
        with pytest.raises(MalformedError):
            await mirror.apply_to_tree(name, b"")
        with pytest.raises(MalformedError):
            await mirror.changes(name, name)
        with pytest.raises(MalformedError):
            await mirror.diff(name, name)


@pytest.mark.parametrize(
    "changes",
    [
        [FileChange(b"src/app.py", "100644", b"changed\n")],
        [FileChange(b"src/app.py", "100755", b"one\ntwo\nthree\n")],
        [FileChange(b"src/app.py", None), FileChange(b"other/deep/app.py", "100644", b"one\ntwo\nthree\n")],
        [FileChange(b"src", "100644", b"a file in the place of a folder\n")],
        [FileChange(b"README.md", None), FileChange(b"README.md/inside", "100644", b"a folder in the place of a file\n")],
        [FileChange(b"src/link", "120000", b"app.py")],
        [FileChange(b'src/odd "name"\n\xff', "100644", b"x\n")],
        [FileChange(b"src/app.py", None), FileChange(b"README.md", None)],
    ],
    ids=["edit", "mode", "move", "file_for_folder", "folder_for_file", "link", "odd_name", "nothing_left"],
)
async def test_large_index_gives_the_same_tree_as_a_small_one(
    known: Known, monkeypatch: pytest.MonkeyPatch, changes: list[FileChange]
) -> None:
    tree = await known.mirror.write_tree(known.commit, changes)
    patch = await known.mirror.diff(known.commit, tree)
    monkeypatch.setattr(objects, "LARGE_INDEX", 0)
    assert await known.mirror.apply(known.commit, patch) == tree
    monkeypatch.setattr(objects, "LARGE_INDEX", 1 << 40)
    assert await known.mirror.apply(known.commit, patch) == tree


REMOVAL = (
    b"diff --git a/README.md b/README.md\ndeleted file mode 100644\n--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-read me\n"
)
MOVED = b"diff --git a/src/app.py b/src/%b.py\nsimilarity index 100%%\n%b from src/app.py\n%b to src/%b.py\n"
ODD = (
    b'diff --git "a/src/t\\303\\244b\\t.py" "b/src/t\\303\\244b\\t.py"\nnew file mode 100644\n--- /dev/null\n'
    b'+++ "b/src/t\\303\\244b\\t.py"\n@@ -0,0 +1 @@\n+x\n'
)
#: What the paths of the patch alone decide.
WITHIN_PARTS = {
    "edit": b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n",
    "new beside, and deep": new_file("src/new.py") + new_file("a/b/c/d.py"),
    "new program": new_file("src/run.sh", mode="100755"),
    "new link": new_file("src/link", "app.py", "120000"),
    "odd name": ODD,
    "binary": binary_literal(1000, bytes(1000)),
    "mode alone": b"diff --git a/src/app.py b/src/app.py\nold mode 100644\nnew mode 100755\n",
    "removal": REMOVAL,
    "rename": MOVED % (b"moved", b"rename", b"rename", b"moved"),
    "copy": MOVED % (b"copied", b"copy", b"copy", b"copied"),
    "written, and written again": ODD
    + ODD.replace(b"new file mode 100644\n--- /dev/null", b'--- "a/src/t\\303\\244b\\t.py"')
    .replace(b"-0,0 +1", b"-1 +1")
    .replace(b"+x", b"-x\n+y"),
}
#: Where other entries have a say, and those that refuse.
WITHOUT_PARTS = {
    "folder in the place of a file": REMOVAL + new_file("README.md/below"),
    "nothing changed": b"diff --git a/src/app.py b/src/app.py\nold mode 100644\nnew mode 100644\n",
    **HOSTILE,
}


@pytest.mark.parametrize("within", [True, False])
async def test_part_of_an_index_gives_what_the_whole_index_gives(
    known: Known, monkeypatch: pytest.MonkeyPatch, *, within: bool
) -> None:
    works, made = known.mirror._objects, dict[str, str | None]()
    tree, apply_to_part = await known.mirror.tree_of(known.commit), works._apply_to_part

    def told(patch: bytes, *, large: bool) -> str:
        works._is_large = large
        try:
            return works.apply(tree, patch)
        except PatchError as error:
            return f"{error.reason}: {error.message}"

    for name, patch in (WITHIN_PARTS if within else WITHOUT_PARTS).items():
        monkeypatch.setattr(works, "_apply_to_part", lambda *asked, name=name: made.setdefault(name, apply_to_part(*asked)))
        assert told(patch, large=True) == told(patch, large=False), name
        assert (made.get(name) is not None) is within, name


async def test_index_that_was_large_is_not_read_again_as_a_whole(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "LARGE_INDEX", 0)
    await known.mirror.apply(known.commit, new_file("first"))
    monkeypatch.setattr(known.mirror._objects._indexes, "private", None)
    tree = await known.mirror.apply(known.commit, new_file("src/second"))
    assert set(await known.contents(tree)) - set(await known.contents(known.commit)) == {b"src/second"}


async def test_hunks_that_need_a_whole_file_search_are_refused(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the gate would have failed for want of time, and the patch would be brought to it again and again."""
    lines, hunks = 100_000, 4000
    repository = make_repository(files={"f": b"".join(b"%d\n" % number for number in range(lines))})
    mirror = await Mirrors(tmp_path / "mirrors").open(str(repository.path))
    commit = await mirror.resolve("main")
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n"
    for at in range(1, lines - 1, lines // hunks):
        patch += b"@@ -%d,3 +%d,3 @@\n %d\n-%d\n+x\n %d\n" % (lines - 9, lines - 9, at - 1, at, at + 1)
    monkeypatch.setattr(objects, "APPLY_SECONDS", 0.5)
    with pytest.raises(PatchError) as caught:
        await mirror.apply(commit, patch)
    assert caught.value.reason == "patch_limit"
