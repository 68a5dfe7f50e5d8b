"""Every command that an advice, a message or a page names exists, with the options that it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from gatewright.app.cli.app import app
from gatewright.reasons import REASONS
from tests.docs.pages import PAGES, name_of
from tests.reason_codes import ROOT, sources

ROOT_COMMAND = get_command(app)
#: A value in quotation marks.
VALUE = re.compile(r"""\"[^"]*\"|'[^']*'""")
#: In text between backticks; and in a message that ends with a command.
QUOTED = re.compile(r"`gatewright ([^`]+)`")
AT_THE_END = re.compile(r"(?:^|[:;,] |then )gatewright ([a-z][^`)]*)$")
#: In a help text.
SEE = re.compile(r"\(see: gatewright ([^)]+)\)")
#: A line of an example.
LINE = re.compile(r"\s*(?:\$ )?gatewright ([a-z][^#|]*)")
#: What stands for a part that a message fills in.
FILLED_IN = "…"


def fault_of(line: str) -> str:
    """Why the command line is none; empty where it may be one. Values are not looked at."""
    command, words = ROOT_COMMAND, VALUE.sub("VALUE", line).split()
    while isinstance(command, TyperGroup):
        name = words.pop(0) if words else ""
        if not name or name.startswith("-") or FILLED_IN in name or name.isupper():
            return "" if name else f"{command.name} is a group of commands"
        names = name.split("|")
        if missing := [each for each in names if each not in command.commands]:
            return f"there is no command {missing[0]}"
        command = command.commands[names[0]]
    options = {"-h", "--help", *(name for param in command.params for name in (*param.opts, *param.secondary_opts))}
    named = (word for word in words if re.match(r"-[a-z-]", word))
    unknown = [name for word in named for name in re.findall(r"--?[a-z][a-z-]*", word.split("=")[0]) if name not in options]
    return f"{command.name} has no option {unknown[0]}" if unknown else ""


def messages() -> Iterator[tuple[str, str]]:
    """The place and the text of each string of the product; parts that are filled in are ``FILLED_IN``."""
    for path, module in sources().items():
        inside = {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(module):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                parts = (str(part.value) if isinstance(part, ast.Constant) else FILLED_IN for part in node.values)
                yield place, "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield place, node.value


def faults_in(texts: Iterator[tuple[str, str]], *patterns: re.Pattern[str]) -> list[str]:
    found = ((place, line) for place, text in texts for pattern in patterns for line in pattern.findall(text))
    return [f"{place}: gatewright {line}: {fault}" for place, line in found if (fault := fault_of(line))]


def test_every_command_of_an_advice_exists() -> None:
    assert faults_in(((code, reason.advice) for code, reason in REASONS.items()), QUOTED, AT_THE_END) == []


def test_every_command_of_a_message_exists() -> None:
    assert faults_in(messages(), QUOTED, AT_THE_END, SEE) == []


def test_every_command_of_a_page_exists() -> None:
    assert [fault for fault in faults_in(texts_of_pages(), QUOTED) if "is a group of commands" not in fault] == []


def test_every_command_line_of_an_example_exists() -> None:
    assert faults_in(lines_of_examples(), LINE) == []


def texts_of_pages() -> Iterator[tuple[str, str]]:
    return ((name_of(page), page.read_text("utf-8").replace("\n", " ")) for page in PAGES)


def lines_of_examples() -> Iterator[tuple[str, str]]:
    """The lines of code blocks that begin with the command."""
    for page in PAGES:
        inside, continued = False, False
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif (inside or line.startswith("    ")) and not continued and LINE.match(line):
                yield f"{name_of(page)}:{number}", line
            continued = line.endswith("\\")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("runs --limit 2", ""),
        ("ls", "there is no command ls"),
        ("dead-letters list", "there is no command dead-letters"),
        ("keys", "keys is a group of commands"),
        ("runs --newest", "runs has no option --newest"),
        ("agents list|login-check", ""),
    ],
)
def test_a_command_that_does_not_exist_is_seen(line: str, fault: str) -> None:
    assert fault_of(line) == fault
