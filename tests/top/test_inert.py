"""Words from outside in a terminal: no escape, no direction of writing, no markup, no endless line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gatewright.app.top.detail_lines import MOST_PATCH_LINES, change_lines
from gatewright.app.top.lines import MOST_CELL, MOST_LINE, cell, line
from gatewright.app.top.questions import ApproveScreen, WordsScreen
from gatewright.app.top.run_screen import RunScreen
from gatewright.app.top.steering import Steering, WithTerminal
from gatewright.contracts import ApprovalList, codec
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalSummary, GateSummary, QuotedWords
from gatewright.errors import DeniedError
from gatewright.resources import schema_directory
from gatewright.run import events as e
from tests.report.conftest import HOSTILE, PATCH, HostileRun
from tests.top.conftest import TerminalBoard, back, cells, opened, painted, until, words

#: Markup of the libraries that draw, a link, sequences of a terminal, directions of writing, and more than any line holds.
TRICKS = f"[red]x[/red] [@click=app.quit]q[/] [link=https://x]y[/link] {HOSTILE}\x1b]0;t\x07\x9b2J\u2066\u200b\r" + "W" * 5_000


def hostile_run() -> HostileRun:
    run = HostileRun()
    run.accept(requested_by=TRICKS[:200])
    run.plan(shards=1)
    run.work()
    run.compose()
    run.pass_review()
    run.end("FAILED", "tests_failed", TRICKS, e.LabelledEvent(e.AbortRequested(reason=TRICKS, requested_by=TRICKS[:200])))
    return run


def hostile_request() -> ApprovalRequest:
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "full.json"
    request = codec.decode(example.read_bytes(), ApprovalList).approvals[0].request
    return replace(
        request, why=TRICKS[:4000], user_request=TRICKS[:4000], repository=TRICKS, publisher=TRICKS, phrase="[b]yes[/b]"
    )


def hostile_summary() -> ApprovalSummary:
    quoted = (QuotedWords(speaker=TRICKS[:200], about="command", text=TRICKS[:2000]),)
    gates = (GateSummary(gate="tests", verdict="FAIL", code=TRICKS),)
    return ApprovalSummary(
        title=TRICKS[:200],
        ordered_by=(TRICKS,),
        publisher=TRICKS,
        requested_by=TRICKS,
        repository=TRICKS,
        lands_on=TRICKS,
        why=TRICKS[:4000],
        on_silence=TRICKS,
        gates=gates,
        changed_files=1,
        quoted=quoted,
    )


def assert_inert(pilot: Pilot[None]) -> None:
    for text in painted(pilot):
        assert text.isprintable()
        assert "\u202e" not in text


@pytest.mark.parametrize(("clean", "most"), [(cell, MOST_CELL), (line, MOST_LINE)])
def test_whatever_is_written_becomes_one_short_printable_line(clean: type[str], most: int) -> None:
    shown = clean(TRICKS)
    assert shown.isprintable()
    assert len(shown) == most
    assert shown.startswith("[red]x[/red] [@click=app.quit]q[/]")
    assert "\\x1b[31m\\u202egnp.exe" in shown
    assert clean("a\n\tb").isprintable()


def test_a_change_is_shown_without_its_sequences_and_not_without_end() -> None:
    shown = change_lines(PATCH, "run-1")
    assert all(each.isprintable() for each in shown)
    assert "+    return" in "\n".join(shown)
    long = change_lines(b"+x\n" * (MOST_PATCH_LINES + 5), "run-1")
    assert (len(long), "gatewright show run-1" in long[-1]) == (MOST_PATCH_LINES + 1, True)


@pytest.mark.long
async def test_no_word_of_a_run_is_markup_or_leads_the_terminal(terminal: TerminalBoard) -> None:
    run = hostile_run()
    await terminal.write(run.transitions)
    async with terminal.shown() as pilot:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        assert_inert(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: opened(pilot, RunScreen) and "[red]x[/red]" in words(pilot, "#detail"))
        assert any("[red]x[/red]" in text for text in painted(pilot))
        for _ in range(4):
            assert_inert(pilot)
            await pilot.press("tab")
            await pilot.pause()
        assert pilot.app.is_running


@pytest.mark.long
async def test_the_typed_phrase_approves_and_a_refusal_is_shown(terminal: TerminalBoard) -> None:
    request, brought = hostile_request(), list[tuple[str, str]]()

    async def approve(request_id: str, phrase: str, with_terminal: WithTerminal) -> str:
        with_terminal(lambda: brought.append((request_id, phrase)))
        if phrase != request.phrase:
            raise DeniedError(f"the phrase differs {TRICKS}", code="approval_phrase_differs")
        return f"approved {TRICKS}"

    terminal.steering = Steering(approve, may_abort=True, signer="by ana")
    async with terminal.shown() as pilot:
        app = pilot.app
        app._request = lambda _request_id: (request, hostile_summary())  # type: ignore[attr-defined] # as if the board had it
        for typed, told in ((["n", "o"], "approval_phrase_differs"), (list(request.phrase), "approved")):
            app.ask_approve(request.request_id)  # type: ignore[attr-defined] # TopApp
            await until(pilot, lambda: opened(pilot, ApproveScreen) and app.focused is not None)
            assert_inert(pilot)
            assert any("type exactly '[b]yes[/b]'" in text for text in painted(pilot))
            await pilot.press(*(_KEYS.get(key, key) for key in typed), "enter")
            await until(pilot, lambda: opened(pilot, WordsScreen))
            assert told in words(pilot, "#words")
            assert_inert(pilot)
            await back(pilot)
        app.ask_approve(request.request_id)  # type: ignore[attr-defined] # TopApp
        await until(pilot, lambda: opened(pilot, ApproveScreen))
        await pilot.press("escape")
    assert brought == [(request.request_id, "no"), (request.request_id, request.phrase)]


_KEYS = {"[": "left_square_bracket", "]": "right_square_bracket", "/": "slash"}
