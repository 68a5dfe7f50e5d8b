"""The table of options: each row is complete, is read as it is written, and reaches the request."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatewright.app.cli.run import start as start_module
from gatewright.app.cli.run.request import prepare
from gatewright.order_form.rows import Kind, Row, bounds_of
from gatewright.order_form.run_options import RunOptions, order_rows, row
from gatewright.order_form.words import command_line, flags_without_value, in_options
from tests.command_line import invoke
from tests.git.repositories import MakeRepository

pytestmark = pytest.mark.every_case

WRITTEN = tuple(each for each in order_rows() if each.flags and each.repeated)
#: Rows whose field of the request is no copy of the option: what is given is completed, combined or looked up.
COMPLETED = {"request", "repo", "ref", "allow", "tests", "target_ref", "agent", "model", "fallback", "interactive", "land"}
PLACED = tuple(each for each in order_rows() if each.pointer and each.name not in COMPLETED)


def sample(each: Row) -> Any:
    """A value of the row that is not its default."""
    match each.kind:
        case Kind.FLAG:
            return True
        case Kind.NUMBER:
            return int(each.bounds.most or 7)
        case Kind.DECIMAL:
            return 12.5
        case Kind.CHOICE:
            return next(choice for choice in each.bounds.choices if choice != each.default)
        case Kind.CHOICES:
            return each.bounds.choices
        case Kind.FILE:
            return Path("/some/file")
        case Kind.FILES:
            return (Path("one"), Path("-two"))
        case Kind.TEXTS:
            return ("PAY-SEC-007", "-x", "a b") if each.name != "requirement" else ("PAY-SEC-007",)
        case _:
            return "-"


@pytest.mark.parametrize("each", order_rows(), ids=lambda each: each.name)
def test_help_is_one_phrase_of_at_most_twelve_words(each: Row) -> None:
    assert len(each.help.split()) <= 12
    assert not each.help.endswith(".")
    assert not {"nobody", "someone", "somebody", "whoever", "said", "told"} & set(each.help.lower().split())


def test_no_two_rows_share_a_flag_field_or_name() -> None:
    flags = Counter(flag for each in order_rows() for whole in each.flags for flag in whole.split("/"))
    pointers = Counter(each.pointer for each in order_rows() if each.pointer)
    keys = Counter(each.key or each.pointer for each in order_rows() if each.form or each.tool)
    assert max((*flags.values(), *pointers.values(), *keys.values())) == 1


@pytest.mark.parametrize("each", WRITTEN, ids=lambda each: each.name)
def test_an_option_is_read_as_a_retry_line_writes_it(each: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[RunOptions] = []

    async def record(options: RunOptions, **_other: object) -> int:
        read.append(options)
        return 0

    monkeypatch.setattr(start_module, "start_run", record)
    given = replace(RunOptions(request="-x it"), **{each.name: sample(each)})
    ended = invoke(list(command_line(given)[1:]))
    assert ended.returncode == 0, ended.stderr
    assert read == [given]
    assert (each.flag in flags_without_value()) == (sample(each) is True)


@pytest.mark.parametrize("each", PLACED, ids=lambda each: each.name)
def test_an_option_with_a_field_reaches_the_request(each: Row, make_repository: MakeRepository) -> None:
    repository = make_repository("r").path
    plain: dict[str, Any] = {"allow": ("src",), "commands": ("true",), "tests": ("true",)}
    value = ("src/a.py",) if each.name == "allow_tests" else sample(each)
    options = RunOptions(request="x", **plain | {each.name: value})
    found: Any = msgspec.to_builtins(prepare(options, repository).request)
    for name in each.pointer.split("."):
        found = found[name]
    assert (tuple(found) if isinstance(found, list) else found) == value


def test_bounds_and_defaults_are_those_of_the_document() -> None:
    assert (row("shards").bounds.most, row("shards").default) == (64, 1)
    assert (row("ref").default, row("land").default, row("policy_pack").default) == ("HEAD", "branch", "low")
    assert row("max_seconds").bounds.least == 0.001, "more than nothing"
    assert row("timeout").bounds.most is None, "no number is larger"
    assert (bounds_of("candidates").least, bounds_of("candidates").most) == (2, 8)
    assert row("requirement").bounds.pattern.startswith("^[A-Z]")
    with pytest.raises(KeyError):
        bounds_of("scope.allow_everything")


def test_a_field_of_the_scope_is_named_as_its_option() -> None:
    for each in order_rows():
        if each.pointer.startswith("scope."):
            field = f"{each.pointer}: symlink" if each.kind is Kind.CHOICES else each.pointer
            option = f"{each.flag} symlink" if each.kind is Kind.CHOICES else each.flag
            assert in_options(f"opened only by {field}") == f"opened only by {option}"
