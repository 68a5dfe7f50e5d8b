"""A change is put on top of a tree path by path."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.contracts.queue_receipt import Blob, Change
from gatewright.queue.composition import Composition, Conflict, compose, conflict_with, footprint_of
from tests.queue.world import blob, write

X, Y, Z = blob("x"), blob("y"), blob("z")


@pytest.mark.parametrize(
    ("current", "change", "writes"),
    [
        ({"a": X}, Change(path="a", old=X, new=Y), {"a": Y}),
        ({}, Change(path="a", new=Y), {"a": Y}),
        ({"a": X}, Change(path="a", old=X), {"a": None}),
        ({"a": Y}, Change(path="a", old=X, new=Y), {}),
        ({}, Change(path="a", old=X), {}),
        (
            {"a": X},
            Change(path="a", old=X, new=Blob(mode="100755", object_id=X.object_id)),
            {"a": Blob(mode="100755", object_id=X.object_id)},
        ),
    ],
)
def test_a_path_that_is_as_the_run_saw_it_is_written(current: dict[str, Blob], change: Change, writes: object) -> None:
    composed = compose(current, (change,))
    assert composed == Composition(writes, unchanged=bool(writes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("current", "change"),
    [
        ({"a": Z}, Change(path="a", old=X, new=Y)),
        ({}, Change(path="a", old=X, new=Y)),
        ({"a": Z}, Change(path="a", new=Y)),
        ({"a": Z}, Change(path="a", old=X)),
        ({"a": Blob(mode="100755", object_id=X.object_id)}, Change(path="a", old=X, new=Y)),
        ({"a/b": Z}, Change(path="a", new=Y)),
        ({"a/b/c": Z}, Change(path="a", new=Y)),
    ],
)
def test_a_path_that_was_changed_otherwise_is_a_conflict(current: dict[str, Blob], change: Change) -> None:
    assert compose(current, (change,)) == Conflict((change.path,))


def test_a_file_where_a_folder_is_needed_is_a_conflict() -> None:
    assert compose({"a": X}, (Change(path="a/b/c", new=Y),)) == Conflict(("a/b/c",))


def test_a_folder_that_the_run_itself_removes_makes_room_for_its_file() -> None:
    composed = compose({"a/b": X}, (Change(path="a/b", old=X), Change(path="a", new=Y)))
    assert composed == Composition({"a/b": None, "a": Y}, unchanged=True)


def test_a_conflict_elsewhere_in_the_tree_is_not_the_runs() -> None:
    assert compose({"p": X, "q/r": Y}, (Change(path="p", old=X, new=Z),)) == Composition({"p": Z}, unchanged=True)


def test_what_the_base_holds_is_no_conflict_with_what_is_ahead() -> None:
    change = Change(path="a", old=X, new=Y)
    assert conflict_with({"b": Z}, (change,)) == ()
    assert conflict_with({"a": Z}, (change,)) == ("a",)
    assert conflict_with({"a": None}, (change,)) == ("a",)


def test_footprints_overlap_by_path_and_by_folder() -> None:
    one = footprint_of((write("a/b", "1"),))
    assert one.overlaps(footprint_of((write("a/b", "2"),)))
    assert one.overlaps(footprint_of((write("a", "2"),)))
    assert one.overlaps(footprint_of((write("a/b/c", "2"),)))
    assert not one.overlaps(footprint_of((write("a/c", "2"), write("ab", "2"))))


RENAME = (Change(path="dir/f1", old=X), Change(path="newdir/f1", new=X))
EDIT = Change(path="dir/f1", old=X, new=Y)


def test_rename_smuggling_is_a_conflict() -> None:
    renamed = compose({"dir/f1": X}, RENAME)
    assert isinstance(renamed, Composition)
    assert compose(renamed.writes, (EDIT,)) == Conflict(("dir/f1",))


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=folder, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def test_control_merge_tree_lands_the_smuggled_rename(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "f1").write_text("one\ntwo\nthree\nfour\n")
    git(tmp_path, "add", "."), git(tmp_path, "commit", "--quiet", "-m", "base")
    git(tmp_path, "checkout", "--quiet", "-b", "rename")
    git(tmp_path, "mv", "dir", "newdir"), git(tmp_path, "commit", "--quiet", "-m", "rename")
    git(tmp_path, "checkout", "--quiet", "-b", "edit", "main")
    (tmp_path / "dir" / "f1").write_text("one\ntwo\nthree\nfour\nsmuggled\n")
    git(tmp_path, "commit", "--quiet", "-a", "-m", "edit")
    tree = git(tmp_path, "merge-tree", "--write-tree", "rename", "edit").splitlines()[0]
    assert "smuggled" in git(tmp_path, "show", f"{tree}:newdir/f1")
