"""The organisation's budgets on the page of repositories."""

from __future__ import annotations

from gatewright.bus.topology import CONTEXT_SUBJECT
from gatewright.contracts import BudgetState, BudgetStates
from tests.console.conftest import ServedConsole
from tests.console.merge_queues import serve_document
from tests.console.test_pages import Markup, ask
from tests.report.conftest import HOSTILE


def state(name: str, *repositories: str) -> BudgetState:
    return BudgetState(
        name=name,
        period="day",
        ends="2026-03-01T00:00:00.000Z",
        repositories=repositories,
        runs=2,
        spent_tokens=700,
        reserved_tokens=150,
        tokens=1000,
    )


def test_the_page_shows_usage_and_reservations(console: ServedConsole) -> None:
    serve_document(console, CONTEXT_SUBJECT, BudgetStates(budgets=(state("team", "*"),)))
    page = ask(console, "/repositories")
    text = Markup(page.text).text
    assert "team, this day" in text
    assert "open runs: 2" in text
    assert "850 of 1,000 tokens, 150 reserved" in text


def test_a_hostile_pattern_stays_text(console: ServedConsole) -> None:
    serve_document(console, CONTEXT_SUBJECT, BudgetStates(budgets=(state("team", HOSTILE),)))
    page = ask(console, "/repositories")
    markup = Markup(page.text)
    assert page.status == 200
    assert markup.scripts == ["/static/console.js"]
    assert not {"img", "iframe", "style", "object", "embed"} & markup.tags


def test_without_budgets_the_page_has_no_section(console: ServedConsole) -> None:
    serve_document(console, CONTEXT_SUBJECT, BudgetStates(budgets=()))
    assert "Budgets" not in Markup(ask(console, "/repositories").text).text


def test_without_an_answer_the_page_names_why_none_are_shown(console: ServedConsole) -> None:
    page = ask(console, "/repositories")
    assert page.status == 200
    assert "Budgets are not shown:" in page.text
