"""Trees that want to be written somewhere else, and remains that do not want to be removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.errors import DeniedError
from gatewright.sandbox import SandboxAccount, sandbox_account
from gatewright.workspace.layers import Layers, is_whiteout
from gatewright.workspace.removal import remove_tree
from gatewright.workspace.tree_writer import TreeWriter

ACCOUNT = sandbox_account()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def writer(root: Path) -> Iterator[TreeWriter]:
    with TreeWriter(root, ACCOUNT) as opened:
        yield opened


@pytest.mark.parametrize(
    "path",
    [
        *(b"../out", b"a/../../out", b"/out", b"a//b", b"", b".", b"..", b"a/.", b".git/config", b".GIT/hooks/x", b"a/.git/x"),
        *(b"git~1/config", b".g\xe2\x80\x8cit/config", b"a\0b"),
    ],
)
def test_path_that_no_tree_may_hold_is_not_written(writer: TreeWriter, root: Path, path: bytes) -> None:
    with pytest.raises(DeniedError) as refused:
        writer.write(path, "100644", b"x")
    assert refused.value.reason == "unsafe_path"
    assert [place.name for place in root.parent.iterdir()] == ["root"]
    assert not any(place.is_file() for place in root.rglob("*"))


def test_file_below_a_link_is_not_written(writer: TreeWriter, root: Path) -> None:
    """CVE-2024-32002: a link and a folder that look the same to somebody."""
    (root.parent / "out").mkdir()
    writer.write(b"a", "120000", b"../out")
    with pytest.raises(DeniedError):
        writer.write(b"a/x", "100644", b"x")
    with pytest.raises(DeniedError):
        writer.write(b"a/b/c", "100644", b"x")
    assert list((root.parent / "out").iterdir()) == []


def test_link_does_not_take_the_place_of_a_folder(writer: TreeWriter) -> None:
    writer.write(b"a/x", "100644", b"x")
    for mode in ("120000", "100644", "160000"):
        with pytest.raises(DeniedError):
            writer.write(b"a", mode, b"../out")


def test_file_is_not_written_through_a_link(writer: TreeWriter, root: Path) -> None:
    writer.write(b"a", "120000", b"../out")
    with pytest.raises(DeniedError):
        writer.write(b"a", "100644", b"x")
    assert not (root.parent / "out").exists()


def test_rights_do_not_depend_on_the_umask(writer: TreeWriter, root: Path) -> None:
    before = os.umask(0o077)
    try:
        writer.write(b"d/file", "100644", b"x")
        writer.write(b"d/program", "100755", b"x")
        writer.write(b"d/module", "160000", b"")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("d", "d/file", "d/program", "d/module")]
    assert modes == [0o755, 0o644, 0o755, 0o755]
    assert {(root / name).stat().st_uid for name in ("d", "d/file")} == {ACCOUNT.uid}


def test_whiteout_hides_what_is_below(writer: TreeWriter, root: Path, tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    (lower / "a" / "b").mkdir(parents=True)
    (lower / "a" / "b" / "c").write_text("c")
    (lower / "x").write_text("x")
    writer.write(b"y", "100644", b"y")
    writer.whiteout(b"a/b")
    writer.whiteout(b"x")
    writer.whiteout(b"y")  # is there: nothing to hide
    assert is_whiteout((root / "a" / "b").lstat())
    layers = Layers((root, lower))
    assert layers.status(("a", "b", "c")) is None
    assert layers.status(("x",)) is None
    assert list(layers.files_below(())) == [("y",)]


def test_layers_do_not_follow_links(tmp_path: Path) -> None:
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    upper.mkdir()
    (lower / "etc").mkdir(parents=True)
    (lower / "etc" / "passwd").write_text("from the tree")
    (upper / "etc").symlink_to("/etc")
    layers = Layers((upper, lower))
    assert layers.status(("etc", "passwd")) is None
    assert list(layers.files_below(())) == [("etc",)]
    assert list(layers.files_below(("etc", "passwd"))) == []


@pytest.mark.long
def test_tree_deeper_than_any_path_is_removed(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 100, dir_fd=folder)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    remove_tree(root)
    assert not root.exists()


def test_links_are_removed_and_not_what_they_lead_to(root: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (root / "a").mkdir()
    (root / "a" / "link").symlink_to(tmp_path / "kept")
    (root / "link").symlink_to(tmp_path / "kept")
    os.mkfifo(root / "a" / "pipe")
    (root / "a").chmod(0)
    remove_tree(root)
    assert (tmp_path / "kept" / "file").exists()


def test_folder_that_is_a_link_is_not_removed(root: Path, tmp_path: Path) -> None:
    (root / "file").touch()
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(OSError, match="link"):
        remove_tree(tmp_path / "link")
    assert (root / "file").exists()
    remove_tree(tmp_path / "missing")


def test_own_account_needs_no_change_of_owner(root: Path) -> None:
    with TreeWriter(root, SandboxAccount(os.geteuid(), os.getegid(), switched=False)) as writer:
        writer.write(b"file", "100644", b"x")
    assert (root / "file").stat().st_uid == os.geteuid()
