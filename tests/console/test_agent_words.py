"""What agents say while they work, on the page of their run: told as it comes, once, and as text alone."""

from __future__ import annotations

import http.client
from typing import Any

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import live_subject
from gatewright.contracts import AgentActivity, codec
from gatewright.contracts.activity import ActivityKind
from tests.console.conftest import MakeConsole, ServedConsole
from tests.console.test_pages import Markup, ask
from tests.report.conftest import HOSTILE
from tests.view.ledgers import make_run, run_id_of

RUN = run_id_of(1)


def say(console: ServedConsole, text: str, run_id: str = RUN, event: ActivityKind = "message") -> None:
    """Once the console listens, so that it is heard."""
    spoken = AgentActivity(run_id=run_id, task_id=f"{run_id}.plan.w01", event=event, text=text)

    async def broadcast() -> None:
        bus = MemoryBus(console.system)
        await bus.broadcast(live_subject("worker"), codec.encode(spoken))
        await bus.close()

    while not console.system.listening:
        ask(console, "/readyz")
    console.do(broadcast())


def page_with(console: ServedConsole, text: str) -> str:
    while text not in (page := ask(console, f"/runs/{RUN}").text):
        pass
    return page


def told(console: ServedConsole, query: str) -> list[dict[str, Any]]:
    """What an open page of the run is told of its agents, in the first event that has any."""
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=60)
    connection.request("GET", f"/events?view=run&run={RUN}&{query}")
    answer = connection.getresponse()
    assert answer.status == 200
    try:
        while True:
            line = answer.readline()
            if line.startswith(b"data: ") and (said := msgspec.json.decode(line[6:]).get("activities")):
                return list(said)
    finally:
        connection.close()


@pytest.fixture
def console(make_console: MakeConsole) -> ServedConsole:
    made = make_console()
    made.write(make_run(1, "open"))
    return made


def test_live_messages_appear_only_on_their_runs_page(console: ServedConsole) -> None:
    console.write(make_run(2, "open"))
    say(console, "reading src/a.py")
    assert 'data-heard="0"' not in page_with(console, "reading src/a.py")
    assert "reading src/a.py" not in ask(console, f"/runs/{run_id_of(2)}").text


def test_an_open_page_receives_each_update_once(console: ServedConsole) -> None:
    say(console, "one")
    page = page_with(console, "<span>one</span>")
    at = page.partition('data-at="')[2].partition('"')[0]
    heard = page.partition('data-heard="')[2].partition('"')[0]
    assert [each["text"] for each in told(console, f"after={at}&heard=0")] == ["one"]
    say(console, "two")
    page_with(console, "<span>two</span>")
    (fresh,) = told(console, f"after={at}&heard={heard}")
    assert (fresh["text"], fresh["task"], fresh["number"]) == ("two", "plan.w01", int(heard) + 1)


@pytest.mark.parametrize("heard", ["-1", "x", "9" * 40, "1e5"])
def test_a_number_that_is_none_counts_from_the_beginning(console: ServedConsole, heard: str) -> None:
    say(console, "one")
    at = page_with(console, "<span>one</span>").partition('data-at="')[2].partition('"')[0]
    assert [each["text"] for each in told(console, f"after={at}&heard={heard}")] == ["one"]


def test_no_word_of_an_agent_becomes_markup(console: ServedConsole) -> None:
    say(console, f"{HOSTILE} \u202e")
    page = page_with(console, "activity-")
    while "activity-" not in page.partition('id="agent-words"')[2][:400]:
        page = ask(console, f"/runs/{RUN}").text
    assert not {"img", "iframe", "style"} & Markup(page).tags
    assert "\u202e" not in page


def test_a_newer_live_message_replaces_the_older_one(console: ServedConsole) -> None:
    for number in range(3):
        say(console, f"part {number} ", event="text")
        say(console, f"{number} turns", event="usage")
    page = page_with(console, "2 turns")
    assert ("part 1" in page, "part 2" in page, "1 turns" in page) == (False, True, False)
    assert 'data-now="plan.w01 text"' in page
    say(console, "the whole message")
    page = page_with(console, "the whole message")
    assert ("part 2" in page, "2 turns" in page) == (False, True)
