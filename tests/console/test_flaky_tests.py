"""The flaky tests of a repository's page: the gatekeeper's answer as a table, and no word of others as markup."""

from __future__ import annotations

import re

from gatewright.bus.topology import CONTEXT_SUBJECT
from gatewright.contracts import FlakyTest, FlakyTests
from tests.console.conftest import ServedConsole
from tests.console.merge_queues import serve_document
from tests.console.test_pages import Answer, Markup, ask
from tests.report.conftest import HOSTILE
from tests.view.ledgers import make_run, run_id_of


def flake(test: str, *argv: str) -> FlakyTest:
    return FlakyTest(
        repository="//git.example.org/shop",
        cmd_argv=argv,
        test=test,
        plays=41,
        failures=3,
        flaky_trees=2,
        last_run=run_id_of(1),
        last_failed_at="2026-11-03T10:15:00.000Z",
    )


def page_of(console: ServedConsole) -> Answer:
    """The page of the repository of the only run."""
    console.write(make_run(1))
    (place,) = re.findall(r'href="(/repository\?[^"]+)"', ask(console, "/repositories").text)
    return ask(console, place)


def test_the_page_lists_flaky_tests_with_their_rates(console: ServedConsole) -> None:
    found = FlakyTests(tests=(flake("t.py::b", "python", "-m", "pytest", "-k", "a b"),), reports=57, more=False)
    serve_document(console, CONTEXT_SUBJECT, found)
    page = page_of(console)
    assert f"t.py::bpython -m pytest -k 'a b'7.3 %3 of 412{run_id_of(1)}" in Markup(page.text).text


def test_a_hostile_test_id_stays_text(console: ServedConsole) -> None:
    serve_document(console, CONTEXT_SUBJECT, FlakyTests(tests=(flake(HOSTILE, HOSTILE),), reports=57, more=False))
    page = page_of(console)
    markup = Markup(page.text)
    assert page.status == 200
    assert "7.3 %" in markup.text
    assert markup.scripts == ["/static/console.js"]
    assert not {name for name in markup.attributes if name.startswith("on") or name == "style"}
    assert not {"img", "iframe", "style", "object", "embed"} & markup.tags
    assert not set("\x1b\u202e\x00") & set(page.text)


def test_without_flaky_tests_the_page_names_the_number_of_reports(console: ServedConsole) -> None:
    serve_document(console, CONTEXT_SUBJECT, FlakyTests(tests=(), reports=57, more=False))
    assert "No test failed and passed on one tree in 57 test reports" in Markup(page_of(console).text).text


def test_without_an_answer_the_page_names_why_none_are_listed(console: ServedConsole) -> None:
    page = page_of(console)
    assert page.status == 200
    assert "Flaky tests are not shown:" in page.text
    assert "[bus_no_responders]" in page.text
