"""A patch taken apart says what git says, and no input breaks it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gatewright.app.report.patch import parse_patch

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.quotePath=true")
NAMES = (b"plain.py", b"a b/c d.txt", 'naïve "quoted".py'.encode(), b"tab\tnew\nline", b"odd-\xff-bytes", b"src b/src b/x")


def diff_of(folder: Path) -> bytes:
    words = ("diff", "--cached", "--binary", "--full-index", "--no-renames", "--no-color", "HEAD")
    return subprocess.run((*GIT, *words), cwd=folder, check=True, capture_output=True).stdout


def git(folder: Path, *words: str) -> None:
    subprocess.run((*GIT, *words), cwd=folder, check=True, capture_output=True)


def write(folder: Path, name: bytes, data: bytes) -> None:
    path = Path(bytes(folder).decode()) / name.decode("utf-8", "surrogateescape")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_names_and_counts_are_those_of_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in NAMES:
        write(tmp_path, name, b"one\ntwo\nthree\n")
    write(tmp_path, b"goes.txt", b"gone\n")
    write(tmp_path, b"image.bin", b"\0\1\2")
    write(tmp_path, b"run.sh", b"true\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    for name in NAMES:
        write(tmp_path, name, b"one\n--- two\n+++ three\nthree")
    (tmp_path / "goes.txt").unlink()
    write(tmp_path, b"image.bin", b"\0\1\2\3")
    write(tmp_path, b"empty.txt", b"")
    (tmp_path / "run.sh").chmod(0o755)
    git(tmp_path, "add", "-A")
    files = {file.path: file for file in parse_patch(diff_of(tmp_path))}
    assert set(files) == {*NAMES, b"goes.txt", b"image.bin", b"empty.txt", b"run.sh"}
    for name in NAMES:
        assert (files[name].kind, files[name].added, files[name].removed) == ("modified", 3, 2), name
    assert (files[b"goes.txt"].kind, files[b"goes.txt"].removed) == ("deleted", 1)
    assert files[b"image.bin"].binary
    assert (files[b"empty.txt"].kind, files[b"empty.txt"].hunks) == ("added", [])
    assert (files[b"run.sh"].kind, files[b"run.sh"].modes) == ("mode", ("100644", "100755"))


@given(st.binary(max_size=400))
def test_any_bytes_after_a_head_are_taken_as_they_come(rest: bytes) -> None:
    for head in (b"", b"diff --git a/x b/x\n", b'diff --git "a/\\377" "b/\\377"\n@@ -1 +1 @@\n', b"diff --git "):
        for file in parse_patch(head + rest):
            assert file.name.isprintable()
