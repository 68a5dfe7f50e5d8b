"""``context``: blocks of data as they were answered, with nothing in them that a terminal obeys."""

from __future__ import annotations

from gatewright.app.cli.run_context import context_lines
from gatewright.contracts import RunContext
from gatewright.contracts.run_status import ContextSection
from tests.cli.conftest import Command


def test_sections_are_shown_line_by_line_and_name_omissions() -> None:
    sections = (
        ContextSection(selector="summary", text="one\ntwo\x1b[2J\u202e", characters=9, cut=False),
        ContextSection(selector="diff", text="+a", characters=90_000, cut=True),
    )
    found = RunContext(run_id="run-0123456789", seq=4, status="RUNNING", state="S3", attempt=1, sections=sections)
    assert list(context_lines(found)) == ["summary", "one", "two\\x1b[2J\\u202e", "diff (cut: --full prints all)", "+a"]


def test_a_run_or_a_repository_is_named_and_not_both(gatewright: Command) -> None:
    for words in ((), ("run-0123456789", "--repo", ".")):
        said = gatewright("context", *words, "--json")
        assert (said.exit_code, said.documents[0]["error"]["code"]) == (2, "missing")


def test_without_a_system_context_explains_how_to_start_one(gatewright: Command) -> None:
    said = gatewright("context", "run-0123456789", "--json")
    assert (said.exit_code, said.documents[0]["error"]["code"]) == (3, "no_stack")
