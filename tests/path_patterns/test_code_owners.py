"""The operator's CODEOWNERS: what is a line of it, and whose a path is."""

from __future__ import annotations

import pytest

from gatewright.contracts.people.review_votes import OwnedPaths
from gatewright.errors import MalformedError
from gatewright.path_patterns.code_owners import MOST_LINES, UNOWNED, by_line, read_code_owners

TEXT = """# whose is what
*            @core
/src/pay/    @payments ana   # and ana

*.generated
/docs        @writers
"""


def test_lines_are_patterns_with_their_owners() -> None:
    assert read_code_owners(TEXT) == (
        OwnedPaths(line=2, pattern="*", owners=("@core",)),
        OwnedPaths(line=3, pattern="/src/pay/", owners=("@payments", "ana")),
        OwnedPaths(line=5, pattern="*.generated"),
        OwnedPaths(line=6, pattern="/docs", owners=("@writers",)),
    )
    assert read_code_owners("") == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (b"README", 2),
        (b"src/pay/a.py", 3),
        (b"src/Pay/a.py", 3),
        (b"lib/src/pay/a.py", 2),
        (b"src/pay/a.generated", UNOWNED),
        (b"docs/a.generated", 6),
        (b"docs", 6),
        (b"src/pay/\xff\n\x1b", 3),
    ],
)
def test_the_last_matching_line_names_the_owner(path: bytes, line: int) -> None:
    assert by_line(read_code_owners(TEXT), [path]) == {line: [path]}


def test_what_no_line_matches_is_of_no_owner() -> None:
    owned = read_code_owners("/src @core")
    assert by_line(owned, [b"b", b"src/a", b"a"]) == {UNOWNED: [b"b", b"a"], 1: [b"src/a"]}
    assert by_line((), [b"a"]) == {UNOWNED: [b"a"]}
    assert by_line(owned, []) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a @x\n!b @y", "line 2: !b"),
        ("src/[ab] @x", "line 1"),
        ("src\\ a @x", "line 1"),
        ("a " + " ".join(f"@{n}" for n in range(21)), "21 owners"),
        ("\n".join(f"{n} @x" for n in range(MOST_LINES + 1)), f"{MOST_LINES + 1} lines"),
    ],
)
def test_what_means_something_else_elsewhere_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        read_code_owners(text)
