"""Command lines from contracts: what they mean, and what is no plain argv."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.errors import CommandRefusedError
from gatewright.sandbox import parse_command
from gatewright.sandbox.argv import MAX_CHARACTERS


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("true", ("true",)),
        ('python -m pytest -k "a and not b"', ("python", "-m", "pytest", "-k", "a and not b")),
        ("pytest 'tests/test_a.py::test_b[x-1]'", ("pytest", "tests/test_a.py::test_b[x-1]")),
        ("ls *.py ~ {a,b} (c) #d !e", ("ls", "*.py", "~", "{a,b}", "(c)", "#d", "!e")),
        ("make  PREFIX=/usr ''", ("make", "PREFIX=/usr", "")),
        (r"grep a\ b", ("grep", "a b")),
        ("echo é 日本", ("echo", "é", "日本")),
    ],
)
def test_plain_commands_are_split_as_a_shell_would(text: str, argv: tuple[str, ...]) -> None:
    assert parse_command(text) == argv


@pytest.mark.parametrize(
    "text",
    [
        *(
            "true; rm -rf .",
            "true && x",
            "true || x",
            "true | x",
            "x > f",
            "x < f",
            "x &",
            "`id`",
            "$(id)",
            "$HOME",
            "a\nb",
            "a\rb",
        ),
        *("echo 'a;b'", 'echo "a | b"', r"echo \;", "echo ${IFS}", "x 2>&1"),
    ],
)
def test_shell_metacharacters_are_refused_in_quotes_too(text: str) -> None:
    with pytest.raises(CommandRefusedError):
        parse_command(text)


@pytest.mark.parametrize("text", ["a\0b", "a\x1bb", "a\tb", "a\x7fb", "a\u202eb", "a\u200bb", "a\u2028b", "a\ud800b", "a\x85b"])
def test_characters_that_an_approver_cannot_see_are_refused(text: str) -> None:
    with pytest.raises(CommandRefusedError):
        parse_command(text)


@pytest.mark.parametrize(
    "text", ["", "   ", "''", "'a", 'a "b', "a\\", "A=1 env", "PATH+=x b", "-c x", "a" * (MAX_CHARACTERS + 1)]
)
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(CommandRefusedError):
        parse_command(text)


def test_refusal_has_the_stable_code() -> None:
    with pytest.raises(CommandRefusedError) as refused:
        parse_command("a | b")
    assert refused.value.reason == "command_not_allowed"


@given(st.text())
def test_what_is_let_through_means_what_it_looks_like(text: str) -> None:
    try:
        argv = parse_command(text)
    except CommandRefusedError:
        return
    assert argv == tuple(shlex.split(text))
    assert not set(text) & set(";&|<>`$\n\r\0")


@given(st.lists(st.text(alphabet="abc -'\"*[]{}()#~!é", min_size=1), min_size=1))
def test_a_quoted_argv_comes_back(words: list[str]) -> None:
    if words[0].startswith("-") or not words[0]:
        words = ["x", *words]
    assert parse_command(shlex.join(words)) == tuple(words)
