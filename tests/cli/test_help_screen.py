"""Every help screen of the program: short lines in plain English, at most 80 columns, and each option where it belongs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from gatewright.app.cli.app import ProgramHelp, app
from gatewright.app.cli.help_screen import help_of, summary_of
from gatewright.order_form.rows import Panel
from gatewright.order_form.run_options import order_rows
from tests.command_line import invoke
from tests.reason_codes import ROOT

pytestmark = pytest.mark.every_case

PROGRAM: Any = get_command(app)
MOST_WORDS, MOST_SENTENCES, MOST_ON_FIRST_SCREEN = 12, 6, 12


def command_tree(command: Any = PROGRAM, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group with the words that call it."""
    yield path, command
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from command_tree(below, (*path, name))


TREE = dict(command_tree())
EACH = pytest.mark.parametrize("path", TREE, ids=lambda path: " ".join(path) or "gatewright")


def screens(path: tuple[str, ...]) -> list[str]:
    """The help of a command, and of `run` both screens."""
    asked = ["--help", "--help-all"] if path == ("run",) else ["--help"]
    return [invoke([*path, each]).stdout for each in asked]


def texts_of(command: Any) -> list[str]:
    """The summary of a command, and the help of its options and arguments."""
    return [summary_of(command), *(help_of(param) for param in command.params if help_of(param))]


def prose() -> Any:
    spec = importlib.util.spec_from_file_location("prose", ROOT / ".ci" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


@EACH
def test_summary_and_help_are_one_phrase_of_at_most_twelve_words(path: tuple[str, ...]) -> None:
    for text in texts_of(TREE[path]):
        assert len(text.split()) <= MOST_WORDS, text
        assert text[:1].isupper() or text.startswith(("pm,", "green ")), text
        assert not text.endswith("."), text
        assert ". " not in text, text


@EACH
def test_no_help_has_a_banned_word_or_a_long_sentence(path: tuple[str, ...]) -> None:
    module = prose()
    whole = "\n\n".join((TREE[path].help or "", *texts_of(TREE[path])))
    assert [each for each in module.faults("help", whole) if "passive" not in each.text] == []
    details = (TREE[path].help or "").partition("\n\n")[2]
    assert sum(1 for _ in module.sentences(details)) <= MOST_SENTENCES


@EACH
def test_no_line_is_longer_than_eighty_columns_or_cut(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for screen in screens(path):
        assert max(map(len, screen.splitlines())) <= 80
        assert "…" not in screen
        assert not {"<", "[required]", "x<=", ">="} & set(screen.split())


@EACH
def test_no_word_is_broken_between_lines(path: tuple[str, ...]) -> None:
    unwrapped = " ".join(screens(path)[-1].split())
    assert [text for text in texts_of(TREE[path]) if text not in unwrapped] == []


def test_each_command_is_in_one_panel() -> None:
    panelled = [name for names in ProgramHelp.panels.values() for name in names]
    assert sorted(panelled) == sorted(PROGRAM.commands)


def test_run_has_a_short_help_screen_and_a_full_one() -> None:
    first, whole = screens(("run",))
    shown = [line.split()[0] for line in first.splitlines() if line.startswith("  -")]
    assert len(shown) <= MOST_ON_FIRST_SCREEN
    assert "--help-all" in shown
    assert all(f"\n  {row.flags[0]}" in whole for row in order_rows() if row.flags)
    headings = [line for line in whole.splitlines() if line in set(Panel)]
    assert headings == [panel.value for panel in Panel]


def test_a_required_option_stands_in_the_usage() -> None:
    assert invoke(["report", "--help"]).stdout.startswith("Usage: gatewright report [OPTIONS] --output FILE [BUNDLE|RUN]\n")


def test_completion_describes_a_command_with_its_whole_summary() -> None:
    described = TREE[("topology",)].get_short_help_str()
    assert described == "Print or apply the streams, subjects and permissions of the bus"
