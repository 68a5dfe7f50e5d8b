"""The page of merge queues: positions in order, holds, and no word of others as markup."""

from __future__ import annotations

import re

from tests.console.conftest import ServedConsole
from tests.console.merge_queues import full_queue, held_queue, serve_queues
from tests.console.test_pages import Markup, ask
from tests.report.conftest import HOSTILE


def test_the_page_shows_positions_in_order_and_marks_a_hold(console: ServedConsole) -> None:
    serve_queues(console, (full_queue("Reject negative prices"), held_queue()))
    text = " ".join(Markup(ask(console, "/merge").text).text.split())
    parts = ("Position 2: testing", "Reject negative prices", "Position 3: testing", "Waiting for a position")
    order = [text.index(words) for words in parts]
    assert order == sorted(order)
    assert "and 1 run of other publishers" in text
    assert "run-0000 left: its tests failed" in text
    assert "held by ana: release freeze" in text
    assert "gatewright merge resume fedcba98765432100000" in text


def test_each_run_of_a_queue_links_to_its_page(console: ServedConsole) -> None:
    serve_queues(console, (full_queue("x"),))
    links = re.findall(r'href="/runs/(run-\d+)"', ask(console, "/merge").text)
    assert links == ["run-0001", "run-0003", "run-0004", "run-0000"]


def test_a_hostile_title_stays_text(console: ServedConsole) -> None:
    serve_queues(console, (full_queue(HOSTILE),))
    page = ask(console, "/merge")
    markup = Markup(page.text)
    assert markup.scripts == ["/static/console.js"]
    assert not {name for name in markup.attributes if name.startswith("on") or name == "style"}
    assert not {"img", "iframe", "style", "object", "embed"} & markup.tags
    assert not set("\x1b\u202e\x00") & set(page.text)


def test_without_an_answer_the_page_names_the_reason(console: ServedConsole) -> None:
    page = ask(console, "/merge")
    assert page.status == 200
    assert "Merge queues are not shown:" in page.text
    assert "[bus_no_responders]" in page.text
