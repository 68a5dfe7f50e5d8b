"""Who looked at what, and how often one browser may ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.console.access_record import AccessFile, open_record
from gatewright.app.console.serving import BURST
from gatewright.app.http_access import AskingRate
from gatewright.errors import ConfigurationError
from tests.console.conftest import MakeConsole, ServedConsole
from tests.console.test_pages import TOKEN, ask
from tests.view.ledgers import make_run, run_id_of


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def session_of(console: ServedConsole) -> str:
    mark = ask(console, "/sign-in").headers["set-cookie"].partition("=")[2].partition(";")[0]
    form, cookie = {"token": TOKEN, "mark": mark}, {"Cookie": f"gatewright_form={mark}"}
    given = ask(console, "/sign-in", method="POST", form=form, headers=cookie).headers["set-cookie"]
    return given.partition("=")[2].partition(";")[0]


def test_each_page_view_is_recorded_without_secrets(make_console: MakeConsole, tmp_path: Path) -> None:
    file = tmp_path / "looked.jsonl"
    console = make_console(token=TOKEN, record=open_record(file))
    console.write(make_run(1))
    session = session_of(console)
    cookie = {"Cookie": f"gatewright_session={session}"}
    for path in (f"/runs/{run_id_of(1)}?from=board", "/?text=secret-plan", "/static/console.css", "/system", "/healthz"):
        ask(console, path, headers=cookie)
    ask(console, f"/runs/{run_id_of(1)}?x=by-a-stranger")
    ask(console, "/", headers={"Host": "elsewhere.example", **cookie})
    told = [(each["page"], each["role"], each["status"]) for each in lines(file)]
    run = f"/runs/{run_id_of(1)}"
    assert told[2:] == [(run, "viewer", 200), ("/", "viewer", 200), (run, "", 303), ("/", "viewer", 421)]
    seen = lines(file)[2]
    assert (seen["who"], seen["query"]) == ("token of the role approver", "from=board")
    assert {each["session"] for each in lines(file)[2:4]} != {""}
    words = file.read_text()
    assert not [secret for secret in (TOKEN, session, "by-a-stranger") if secret in words]
    assert file.stat().st_mode & 0o077 == 0


def test_a_page_that_cannot_be_recorded_is_not_shown(make_console: MakeConsole, tmp_path: Path) -> None:
    console = make_console(record=AccessFile(tmp_path))
    console.write(make_run(1))
    refused = ask(console, f"/runs/{run_id_of(1)}")
    assert (refused.status, run_id_of(1) in refused.text) == (503, False)


def test_an_unwritable_record_is_reported_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path, tmp_path / "link", tmp_path / "missing" / "file"):
        with pytest.raises(ConfigurationError, match="cannot be written"):
            open_record(place)


def test_who_asks_too_often_waits_and_others_do_not() -> None:
    now = [0.0]
    rate = AskingRate(lambda: now[0], burst=3.0, each_second=2.0)
    assert [rate.wait_of("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert rate.wait_of("b") == 0.0
    now[0] = 0.5
    assert [rate.wait_of("a"), rate.wait_of("a")] == [0.0, 0.5]
    now[0] = 100.0
    assert [rate.wait_of("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_a_browser_that_runs_wild_waits_and_another_session_does_not(make_console: MakeConsole) -> None:
    console = make_console(token=TOKEN)
    wild, calm = ({"Cookie": f"gatewright_session={session_of(console)}"} for _ in range(2))
    answers = (ask(console, "/requests/none", headers=wild) for _ in range(40 * int(BURST)))
    answer = next(found for found in answers if found.status == 429)
    assert answer.headers["retry-after"] == "1"
    assert ask(console, "/static/console.css", headers=wild).status == 200
    assert ask(console, "/needs", headers=calm).status == 200
    assert ask(console, "/sign-in").status == 200
