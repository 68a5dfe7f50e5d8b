"""Which paths git must never hold, and how paths are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.git.paths import display, is_git_path, path_fault

DISGUISES = [
    b".git",
    b".GIT",
    b".Git",
    b"git~1",
    b"GIT~1",
    b".git ",
    b".git.",
    b".git . .",
    b".git::$INDEX_ALLOCATION",
    b".git:x",
    ".g\u200cit".encode(),
    "\ufeff.git".encode(),
    b".git\\hooks",
    b"a\\.git\\config",
    b"a\\git~1",
]


@pytest.mark.parametrize("component", DISGUISES)
def test_git_directory_in_disguise_is_recognised(component: bytes) -> None:
    assert is_git_path(component)
    assert path_fault(b"src/" + component + b"/config")


@pytest.mark.parametrize("component", [b".gitignore", b".github", b"git", b".git2", b"git~2", b"x.git", b"..git", b".gi\xfft"])
def test_ordinary_name_is_not_taken_for_a_git_directory(component: bytes) -> None:
    assert not is_git_path(component)
    assert path_fault(b"src/" + component) is None


@pytest.mark.parametrize("path", [b"", b"/etc/passwd", b"../x", b"a/../../x", b"a/./b", b"a//b", b"a/", b"a\0b"])
def test_path_that_leaves_the_tree_is_a_fault(path: bytes) -> None:
    assert path_fault(path)


@pytest.mark.parametrize("name", [b".gitmodules", b"sub/.GITMODULES", b"GITMOD~1", b"gi7eba~1", b".gitmodules ."])
def test_gitmodules_as_a_symbolic_link_is_a_fault(name: bytes) -> None:
    assert path_fault(name, "120000")
    assert path_fault(name, "100644") is None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"src/app.py", "src/app.py"),
        ("ä/ß".encode(), "ä/ß"),
        (b"a\nb\tc", r"a\nb\tc"),
        (b"\xff\xfe", r"\xff\xfe"),
        (rb"\xff", r"\\xff"),
        ("\u202egpj.exe".encode(), r"\u202egpj.exe"),
        (b"\x1b[31mred", r"\x1b[31mred"),
    ],
)
def test_path_is_shown_on_one_line_without_tricks(path: bytes, shown: str) -> None:
    assert display(path) == shown


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_different_paths_are_shown_differently(one: bytes, other: bytes) -> None:
    assert (display(one) == display(other)) == (one == other)
    assert display(one).isprintable()
