"""The rules of ``.gitignore`` files, held against git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.path_patterns.ignore_rules import IgnoreRules

TREES: tuple[dict[str, bytes], ...] = (
    {".gitignore": b"*.log\n!keep.log\n/build/\n/x/*\n!/x/y\n# no\n\\#yes\n\na b \n"},
    {".gitignore": b"out\n!out/a\n", "deep/.gitignore": b"!*.log\n/local\n", "deep/er/.gitignore": b"*.c\n"},
    {".gitignore": b"\xef\xbb\xbf*.tmp\r\n**/gen/**\na/**/z\n[ab].x\n?.y\n", "a/.gitignore": b"!b.x\n"},
    {".gitignore": b"*\n!src\n!src/**\n"},
)
PATHS = (
    *("a.log", "keep.log", "deep/a.log", "deep/keep.log", "deep/er/a.log", "build/x", "deep/build/x", "x/y", "x/z", "x/y/q"),
    *("#yes", "a b", "out", "out/a", "deep/out/a", "deep/local", "deep/er/local", "deep/er/m.c", "deep/m.c", "m.tmp"),
    *(
        "gen/a",
        "deep/gen/b/c",
        "a/z",
        "a/b/c/z",
        "a.x",
        "a/b.x",
        "c.x",
        "é.y",
        "q.y",
        "qq.y",
        "src/a",
        "src/b/c",
        "other/src/a",
    ),
)


@pytest.mark.parametrize("tree", TREES)
def test_the_rules_are_those_of_git(tree: dict[str, bytes], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, content in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    command = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"]
    for path in PATHS:
        # One after another, as files and folders of one name cannot lie there at once.
        place = tmp_path / path
        made = [above for above in place.parents if above != tmp_path and tmp_path in above.parents and not above.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        asked = subprocess.run(command, input=path.encode() + b"\0", capture_output=True, check=False)
        place.unlink()
        for folder in made:
            folder.rmdir()
        files = {name.encode().rpartition(b"/")[0]: content for name, content in tree.items()}
        assert IgnoreRules(files).ignore(path.encode()) == bool(asked.stdout), path


@pytest.mark.parametrize(
    "line", [b"[z-a].x", b"!", b"a\\", b"[[: :]", b"(?P<n>", b"\xff\xfe", b"*" * 3000, b"**/" * 200 + b"a"]
)
def test_a_line_that_is_no_pattern_ignores_nothing_and_harms_no_other(line: bytes) -> None:
    rules = IgnoreRules({b"": line + b"\n*.log\n"})
    assert rules.ignore(b"b.log")
    assert not rules.ignore(b"src/main.py") or line.startswith(b"*" * 10)


@pytest.mark.parametrize("path", [b"a\n.log", b"\xff.log", b"a/" * 2000 + b"b.log", "a\u202e.log".encode()])
def test_a_name_that_cannot_be_read_is_not_ignored(path: bytes) -> None:
    assert not IgnoreRules({b"": b"*.log\n"}).ignore(path)
