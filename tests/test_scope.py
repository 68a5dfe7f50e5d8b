"""The rules of paths, against attacks and against an oracle that knows nothing but lists of parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright import scope
from gatewright.errors import ScopeError

PARTS = st.sampled_from(["src", "src2", "SRC", ".src", "a", "b", "a.py", "tests", "ä", "0", "-"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


def refused(text: str) -> str:
    with pytest.raises(ScopeError) as error:
        scope.check_allowed_path(text)
    return error.value.reason


@pytest.mark.parametrize("text", ["", ".", "./", "/", "*", "**", "**/*", "*/", "//", "~", "~/"])
def test_a_path_that_means_everything_is_too_broad(text: str) -> None:
    assert refused(text) == "path_too_broad"


@pytest.mark.parametrize(
    "text",
    [
        *("/etc", "/src/a.py", "..", "../src", "src/..", "src/../..", "./src", "src/.", "src//a", "src///", "src//"),
        *("src/*.py", "src/**", "a?.py", "a[0].py", "src\\a.py", "C:\\src", "src/\x00", "src/\n", "src/\x7f", "src/\x85"),
        *("src/\u202eyp.a", "src/\u200b", "src/\u2028", "src/\ud800", "-rf", "--output=x", ":(top)", ":!src", "x" * 256),
        "/".join("x" * 200 for _ in range(30)),
    ],
)
def test_a_path_with_a_second_meaning_is_refused(text: str) -> None:
    assert refused(text) == "path_invalid"


@pytest.mark.parametrize(
    "part",
    [
        *(".git", ".GIT", ".Git", "git~1", "GIT~1", ".git.", ".git ", ".git...", ".git::$INDEX_ALLOCATION", ".git:x"),
        *(".g\u200cit", ".git\u200f", "\u202a.git", ".\u206agit", "\ufeff.git"),
    ],
)
@pytest.mark.parametrize("shape", ["{}", "{}/config", "src/{}", "src/{}/hooks/pre-commit"])
def test_what_a_file_system_takes_for_the_git_directory_is_refused(shape: str, part: str) -> None:
    path = shape.format(part)
    assert refused(path) == "path_invalid"
    assert not scope.covers(["src", path, part], path.encode())


@pytest.mark.parametrize(
    "text", ["src", "src/a.py", ".github", ".gitignore", "git", "a.git", "ünï/cödé.py", "a b/c", "x-y", "..."]
)
def test_plain_paths_are_accepted_as_they_are(text: str) -> None:
    assert scope.check_allowed_path(text) == text


def test_only_a_directory_may_have_one_trailing_slash() -> None:
    assert scope.check_allowed_path("src/") == "src"
    with pytest.raises(ScopeError):
        scope.check_path("src/")


def test_a_file_may_have_characters_that_an_allowed_path_may_not() -> None:
    assert scope.check_path("pages/[id].tsx") == "pages/[id].tsx"


def test_a_message_shows_no_character_that_drives_a_terminal() -> None:
    with pytest.raises(ScopeError) as error:
        scope.check_allowed_path("a\x1b[31m\u202e")
    assert error.value.message.isprintable()


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        (b"src", True),
        (b"src/a.py", True),
        (b"src/a/b/c.py", True),
        (b"src2", False),
        (b"src2/a.py", False),
        (b"SRC/a.py", False),
        (b".src/a.py", False),
        (b"lib/src/a.py", False),
        (b"docs/a.md", True),
        (b"docs/a.md/b", True),
        (b"docs/b.md", False),
        (b"src/../x", False),
        (b"src/", False),
        (b"src//a", False),
        (b"/src/a", False),
        (b"", False),
        (b"src/\xff\xfe", True),
        (b"\xff", False),
    ],
)
def test_whole_parts_are_compared(path: bytes, covered: bool) -> None:
    assert scope.covers(["src/", "docs/a.md"], path) is covered
    assert (scope.outside(["src/", "docs/a.md"], [path]) == ()) is covered


@pytest.mark.parametrize("allowed", ["", "/", ".", "..", "*", "**", "\ud800"])
def test_an_allowed_path_that_was_never_checked_covers_nothing(allowed: str) -> None:
    assert scope.outside([allowed], [b"a", b"src/a.py", b"*", b"a/b"]) == tuple(
        path for path in (b"a", b"src/a.py", b"*", b"a/b") if path != allowed.encode("utf-8", "replace")
    )


def parts(text: str) -> list[str]:
    return text.split("/")


def below(path: str, top: str) -> bool:
    """The oracle: a list of parts that begins with another list of parts."""
    return parts(path)[: len(parts(top))] == parts(top)


@given(st.lists(PATHS, max_size=5), PATHS)
def test_covers_is_a_prefix_of_parts(allowed: list[str], path: str) -> None:
    expected = any(below(path, top) for top in allowed)
    assert scope.covers(allowed, path.encode()) is expected
    assert scope.outside(allowed, [path.encode()]) == (() if expected else (path.encode(),))


@given(st.lists(PATHS, max_size=4), st.lists(PATHS, max_size=4))
def test_overlap_means_that_a_file_could_lie_in_both(some: list[str], others: list[str]) -> None:
    expected = any(below(a, b) or below(b, a) for a in some for b in others)
    assert scope.overlap(some, others) is expected
    assert scope.overlap(others, some) is expected


@given(st.lists(st.lists(PATHS, max_size=3), max_size=4))
def test_groups_are_disjoint_when_no_two_of_them_overlap(groups: list[list[str]]) -> None:
    pairs = [(a, b) for at, a in enumerate(groups) for b in groups[at + 1 :]]
    assert scope.disjoint(groups) is not any(below(x, y) or below(y, x) for a, b in pairs for x in a for y in b)


@given(st.text(max_size=12))
def test_what_is_accepted_is_in_canonical_form(text: str) -> None:
    try:
        path = scope.check_allowed_path(text)
    except ScopeError:
        return
    assert path == text.removesuffix("/")
    assert scope.check_allowed_path(path) == path
    assert not set(parts(path)) & {"", ".", ".."}
    assert scope.covers([text], path.encode())


def test_the_paths_word_is_replaced_only_as_a_separate_word() -> None:
    assert scope.expand_paths(("run", "{paths}", "--in={paths}", "{paths}x"), ["a/", "b"]) == (
        *("run", "a", "b", "--in={paths}", "{paths}x"),
    )
    assert scope.takes_paths("run {paths}")
    assert not scope.takes_paths("run --in={paths}")


def test_an_option_cannot_come_in_by_way_of_the_paths() -> None:
    with pytest.raises(ScopeError):
        scope.expand_paths(("rm", "{paths}"), ["--no-preserve-root"])
