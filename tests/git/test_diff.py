"""The canonical patch: complete, stable, and deaf to what a tree says about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.git.changes import FileChange
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirror, Mirrors
from tests.git.repositories import MakeRepository, MakeTrap

ATTRIBUTES = [
    b"* -diff\n",
    b"* binary\n",
    b"*.py diff=evil\n",
    b"* -text eol=crlf\n",
    b"* text working-tree-encoding=UTF-16\n",
    b"* filter=evil ident\n",
    b"* diff=evil merge=evil filter=evil ident\n[attr]evil -diff\n* evil\n",
]


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("place", ["baseline", "candidate"])
async def test_attributes_cannot_hide_or_change_text(
    make_repository: MakeRepository, mirrors: Mirrors, make_trap: MakeTrap, attributes: bytes, place: str
) -> None:
    trap = make_trap()
    repository = make_repository(files={"app.py": b"one\n$Id$\n", "sub/app.py": b"one\n"})
    program = str(trap.program)
    repository.configure(diff__evil__textconv=program, diff__evil__command=program, filter__evil__clean=program)
    repository.configure(filter__evil__smudge=program, filter__evil__process=program, merge__evil__driver=program)
    mirror = await mirrors.open(repository.url)
    old = await mirror.tree_of(await mirror.resolve("main"))
    rules = [FileChange(name, "100644", attributes) for name in (b".gitattributes", b"sub/.gitattributes")]
    if place == "baseline":
        old = await mirror.write_tree(old, rules)
    changes = [FileChange(b"app.py", "100644", b"two\n$Id$\n"), FileChange(b"sub/app.py", "100644", b"two\n")]
    tree = await mirror.write_tree(old, changes if place == "baseline" else [*changes, *rules])
    patch = await mirror.diff(old, tree)
    assert patch.count(b"-one\n+two\n") == 2
    assert b"Binary" not in patch
    assert b"GIT binary patch" not in patch
    assert await mirror.apply_to_tree(old, patch) == tree
    assert not trap.sprung


async def test_attributes_of_the_mirror_itself_are_ours(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(make_repository(files={".gitattributes": b"* filter=evil text eol=crlf ident -diff\n"}).url)
    commit = await mirror.resolve("main")
    told = await GitCommand(mirror.path).run("check-attr", "-z", "filter", "text", "eol", "ident", "diff", "--", "any.py")
    values = dict(zip(told.split(b"\0")[1::3], told.split(b"\0")[2::3], strict=True))
    assert values == {b"filter": b"unset", b"text": b"unset", b"eol": b"unset", b"ident": b"unset", b"diff": b"unspecified"}
    assert commit


async def test_binary_content_is_carried_whole(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(make_repository(files={"old.bin": bytes(range(256)) * 40}).url)
    commit = await mirror.resolve("main")
    changes = [
        FileChange(b"old.bin", "100644", bytes(range(255, -1, -1)) * 40),
        FileChange(b"new.bin", "100755", b"\0\1\2" * 999),
    ]
    tree = await mirror.write_tree(commit, changes)
    patch = await mirror.diff(commit, tree)
    assert patch.count(b"GIT binary patch") == 2
    assert await mirror.apply(commit, patch) == tree


async def test_patch_does_not_depend_on_where_or_by_whom_it_is_made(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository()
    change = [FileChange(b"src/app.py", "100644", b"one\n2\nthree\n"), FileChange(b"README.md", None)]

    async def patch(root: Path) -> bytes:
        mirror = await Mirrors(root).open(repository.url)
        commit = await mirror.resolve("main")
        return await mirror.diff(commit, await mirror.write_tree(commit, change))

    one = await patch(tmp_path / "one")
    home = tmp_path / "someone"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[diff]\nnoprefix = true\ncontext = 0\nalgorithm = patience\nrenames = copies\n[core]\nabbrev = 4\n"
    )
    for name, value in {
        "HOME": str(home),
        "GIT_DIFF_OPTS": "-u0",
        "LC_ALL": "de_DE.UTF-8",
        "GIT_EXTERNAL_DIFF": "true",
    }.items():
        monkeypatch.setenv(name, value)
    assert await patch(tmp_path / "two") == one
    assert one.splitlines()[:2] == [b"diff --git a/README.md b/README.md", b"deleted file mode 100644"]
    assert b"--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in one


async def test_rename_is_never_folded_away(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    mirror: Mirror = await mirrors.open(make_repository(files={"a": b"content\n" * 50}).url)
    commit = await mirror.resolve("main")
    tree = await mirror.write_tree(commit, [FileChange(b"a", None), FileChange(b"b", "100644", b"content\n" * 50)])
    patch = await mirror.diff(commit, tree)
    assert b"rename" not in patch
    assert patch.count(b"+content\n") == patch.count(b"-content\n") == 50
