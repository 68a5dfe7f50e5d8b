"""Bytecode beside the sources of a tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.bytecode import Bytecode, lay_bytecode

BY_TIME = b"mgic" + bytes(4) + b"time" + b"size" + b"code"
BY_DIGEST = b"mgic" + b"\3\0\0\0" + b"digest of" + b"code"
ACCOUNT = SandboxAccount(os.geteuid(), os.getegid(), switched=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.py", "pkg/b.py", "pkg/c.py", "own/__pycache__/d.cpython-311.pyc", "own/d.py"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(b"1\n")
    (tmp_path / "layer").mkdir()
    return tmp_path / "tree"


def laid(tree: Path, compiled: dict[bytes, Bytecode], *changed: bytes) -> dict[str, bytes]:
    layer = tree.parent / "layer"
    lay_bytecode(layer, (tree,), compiled, changed, ACCOUNT)
    return {str(place.relative_to(layer)): place.read_bytes() for place in layer.rglob("*") if place.is_file()}


def test_timestamp_bytecode_gets_the_time_of_its_source(tree: Path) -> None:
    os.utime(tree / "pkg/b.py", (1.9, 0x01020304))
    found = laid(tree, {b"pkg/b.py": Bytecode("b.cpython-311.pyc", BY_TIME), b"a.py": Bytecode("a.cpython-311.pyc", BY_DIGEST)})
    assert found == {
        "pkg/__pycache__/b.cpython-311.pyc": b"mgic" + bytes(4) + b"\4\3\2\1" + b"size" + b"code",
        "__pycache__/a.cpython-311.pyc": BY_DIGEST,
    }


def test_a_source_that_is_changed_or_gone_gets_none(tree: Path) -> None:
    compiled = {path: Bytecode("x.pyc", BY_DIGEST) for path in (b"pkg/b.py", b"pkg/gone.py", b"pkg")}
    assert laid(tree, compiled, b"pkg/b.py") == {}


def test_where_the_tree_has_bytecode_of_its_own_nothing_is_laid(tree: Path) -> None:
    assert laid(tree, {b"own/d.py": Bytecode("d.cpython-311.pyc", BY_DIGEST)}) == {}


def test_a_link_to_a_source_gets_none(tree: Path) -> None:
    (tree / "link.py").symlink_to("a.py")
    assert laid(tree, {b"link.py": Bytecode("link.pyc", BY_DIGEST)}) == {}
