"""Colours never change the text, and a hostile file is not coloured at length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.app.report import syntax
from gatewright.app.report.syntax import MAX_LINE, MAX_PIECE, Colours, language_of

#: What makes regular expressions slow: much of the same, half-open strings and lists.
SEEDS = ("a ", '\\"', '"', "(", "{", "<a ", "/*", "${", "a=", "<<", "- ", "a.", "\t", "**")


def coloured(lines: list[str], language: str) -> list[list[syntax.Piece]]:
    return Colours(seconds=60).lines(lines, language)


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30)


@settings(deadline=None)
@given(st.lists(LINE, max_size=8), st.sampled_from(sorted({*syntax._LANGUAGES, "make", "docker", "cmake", ""})))
def test_coloured_text_is_the_text(lines: list[str], language: str) -> None:
    assert ["".join(text for text, _ in pieces) for pieces in coloured(lines, language)] == lines


@pytest.mark.parametrize("language", sorted({*syntax._LANGUAGES, "make", "docker", "cmake"}))
def test_every_language_of_the_list_is_one_that_pygments_knows(language: str) -> None:
    assert syntax._lexer(language) is not None


def test_code_is_coloured_and_a_string_over_lines_is_one() -> None:
    pieces = coloured(["def f():  # note", '    return """a', 'b"""'], "python")
    assert ("def", "k") in pieces[0]
    assert any(name == "c" for _, name in pieces[0])
    assert {name for _, name in pieces[2]} == {"s"}


@pytest.mark.parametrize("language", sorted({*syntax._LANGUAGES, "make", "docker", "cmake"}))
def test_hostile_text_is_not_coloured_at_length(language: str) -> None:
    """Without bounds the lexer of one language takes minutes for 60 kB of ``a a a``."""
    colours = Colours(seconds=0.2)
    for seed in SEEDS:
        line = (seed * MAX_LINE)[: MAX_LINE - 1]
        lines = [line] * 200
        assert len(colours.lines(lines, language)) == len(lines)


def test_after_its_time_everything_is_plain() -> None:
    colours = Colours(seconds=0)
    assert colours.lines(["def f(): pass"], "python") == [[("def f(): pass", "")]]


def test_long_code_is_coloured_in_groups() -> None:
    lines = ["x = 1  # note"] * (MAX_PIECE // 5)
    assert all(len(pieces) > 1 for pieces in coloured(lines, "python"))


def test_very_long_lines_are_left_plain() -> None:
    assert coloured(["x = 1" * MAX_LINE], "python") == [[("x = 1" * MAX_LINE, "")]]


@pytest.mark.parametrize(
    ("path", "language"),
    [(b"a/b.py", "python"), (b"Makefile", "make"), (b"x.PY", "python"), (b"py", ""), (b"\xff.\xff", ""), (b"a.unknown", "")],
)
def test_language_is_chosen_by_the_name_alone(path: bytes, language: str) -> None:
    assert language_of(path) == language
