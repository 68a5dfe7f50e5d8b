"""What the pages tell, what they refuse, and that no word of a run becomes markup."""

from __future__ import annotations

import asyncio
import errno
import http.client
import io
import tempfile
import urllib.parse
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from gatewright.app.console.access_check import _HEADERS, SignedIn
from gatewright.app.console.drawing import make_templates
from gatewright.app.console.serving import ConsoleAddress
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from gatewright.view.revisions import trail_of
from tests.console.conftest import MakeConsole, ServedConsole
from tests.evidence.recorded_runs import MAKERS, make_fixed
from tests.report.conftest import HOSTILE, HostileRun, private_key
from tests.view.ledgers import make_run, run_id_of

EVERY = "0.0.0.0"  # noqa: S104 - to be refused
__all__ = ["private_key"]
TOKEN = "0123456789abcdef" * 2


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    data: bytes


def ask(
    console: ServedConsole,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    form: dict[str, str] | None = None,
    binary: bool = False,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", console.port)
    sent = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
    connection.request(method, path, urllib.parse.urlencode(form) if form is not None else None, {**sent, **(headers or {})})
    answer = connection.getresponse()
    data = answer.read()
    text = "" if binary else data.decode()
    connection.close()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text, data)


def send_json(console: ServedConsole, path: str, document: object, headers: dict[str, str]) -> Answer:
    """What a script of a page sends; ``document`` as it is where it is bytes."""
    data = document if isinstance(document, bytes) else msgspec.json.encode(document)
    connection = http.client.HTTPConnection("127.0.0.1", console.port)
    connection.request("POST", path, data, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, "", found)


class Markup(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str | None] = []
        self.text = ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))


def hostile_run() -> HostileRun:
    run = HostileRun()
    run.accept(requested_by=HOSTILE)
    run.plan(shards=1)
    run.work()
    run.compose()
    run.pass_review()
    run.end("FAILED", "tests_failed", HOSTILE, e.LabelledEvent(e.AbortRequested(reason=HOSTILE, requested_by=HOSTILE)))
    return run


def test_every_page_exists_and_shows_what_the_ledger_records(console: ServedConsole) -> None:
    console.write(make_run(1))
    console.write(make_run(2, "aborted"))
    board = ask(console, "/")
    assert board.status == 200
    assert f'id="{run_id_of(1)}"' in board.text
    assert f'id="{run_id_of(2)}"' in board.text
    only = ask(console, "/?stage=failed")
    assert (f'id="{run_id_of(1)}"' in only.text, f'id="{run_id_of(2)}"' in only.text) == (False, True)
    one = ask(console, f"/runs/{run_id_of(2)}")
    assert (one.status, "changed my mind" in one.text, "What to do" in one.text) == (200, True, True)
    assert "execution_authority: task_contract" in one.text
    assert ask(console, "/needs").status == 200
    assert "sha256:" in ask(console, "/policies").text


def test_finished_work_is_not_shown_in_progress(console: ServedConsole) -> None:
    whole = make_run(1)
    reviewed = next(number for number, each in enumerate(whole, 1) if "review_received" in {e.event_type for e in each.events})
    console.write(make_run(1, transitions=reviewed))
    console.write(make_run(2, "open"))
    assert "in progress" not in ask(console, f"/runs/{run_id_of(1)}").text
    assert "in progress" in ask(console, f"/runs/{run_id_of(2)}").text


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_page_of_every_kind_of_run_is_complete(console: ServedConsole, name: str) -> None:
    recorded = MAKERS[name]()
    console.write(recorded.transitions)
    page = ask(console, f"/runs/{recorded.run.run_id}")
    assert page.status == 200
    assert all(f'id="{part}"' in page.text for part in ("crew", "timeline", "evidence", "lane-builder"))
    judged = [record for record in recorded.records if record.event_type == "gate_judged"]
    assert page.text.count('href="#gate-') == len(judged)
    assert all(f'id="gate-{number}"' in page.text for number in range(1, len(judged) + 1))


def test_a_repair_is_shown_with_its_reason_and_outcome(console: ServedConsole) -> None:
    recorded = make_fixed()
    console.write(recorded.transitions)
    page = ask(console, f"/runs/{recorded.run.run_id}").text
    (item,) = trail_of(recorded.run, recorded.records).items
    assert f'id="repair-{item.packet.attempt}"' in page
    assert f'href="#event-{item.packet.event}"' in page
    assert f'id="event-{item.packet.event}"' in page


def test_a_future_time_is_shown_as_such_until_it_passes() -> None:
    words = make_templates().from_string("{{ moment|until(now) }}")
    for moment, told in (("2026-01-02T05:00:00Z", "in 5 h"), ("2026-01-01T23:59:20.000Z", "40 s ago")):
        assert words.render(moment=moment, now=datetime(2026, 1, 2, tzinfo=UTC)) == told


def test_an_empty_board_teaches_the_next_command(console: ServedConsole) -> None:
    assert "gatewright run" in ask(console, "/").text
    assert "gatewright approvals watch" in ask(console, "/needs").text


@pytest.mark.parametrize("path", ["/runs/run-ffffffffffffffffffff", "/runs/..%2f..", "/runs/%3Cscript%3E", "/runs/a*b"])
def test_an_id_that_is_no_run_is_reported(console: ServedConsole, path: str) -> None:
    answer = ask(console, path)
    assert answer.status == 404
    assert "<script>" not in answer.text


def test_no_word_of_a_run_becomes_markup(console: ServedConsole) -> None:
    run = hostile_run()
    console.write(run.transitions)
    for path in ("/", f"/runs/{run.run_id}", "/policies", "/?" + urllib.parse.urlencode({"text": HOSTILE, "stage": HOSTILE})):
        page = ask(console, path)
        markup = Markup(page.text)
        assert page.status == 200
        assert markup.scripts[0] == "/static/console.js"
        assert set(markup.scripts) <= {"/static/console.js", "/static/changes.js"}
        assert not {name for name in markup.attributes if name.startswith("on") or name == "style"}
        assert not {"img", "iframe", "style", "object", "embed"} & markup.tags
        assert not set("\x1b\u202e\x00") & set(page.text)


def test_every_answer_forbids_content_from_elsewhere(console: ServedConsole) -> None:
    for path in ("/", "/static/console.js", "/runs/none", "/nowhere"):
        answer = ask(console, path)
        assert {name: answer.headers.get(name.lower()) for name in _HEADERS} == _HEADERS
        assert "unsafe" not in answer.headers["content-security-policy"]
        cached = answer.headers["cache-control"]
        assert cached == ("no-cache" if path.startswith("/static/") else "no-store")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_other_names_and_other_sites_are_refused(console: ServedConsole, headers: dict[str, str], status: int) -> None:
    assert ask(console, "/", headers=headers).status == status
    assert ask(console, "/events?view=board&after=:0", headers=headers).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/needs", "/events", "/runs/run-0123456789"])
def test_nothing_can_be_sent_to_a_page(console: ServedConsole, method: str, path: str) -> None:
    assert ask(console, path, method=method, form={"x": "y"}).status == 405


def test_without_the_token_the_console_reveals_nothing(make_console: MakeConsole) -> None:
    console = make_console(TOKEN)
    console.write(make_run(1))
    for path in ("/", "/needs", "/policies", f"/runs/{run_id_of(1)}", f"/runs/{run_id_of(1)}/bundle.zip", "/events"):
        answer = ask(console, path)
        assert answer.status in (303, 401)
        assert run_id_of(1) not in answer.text
    form = ask(console, "/sign-in")
    cookie = form.headers["set-cookie"].partition(";")[0]
    mark = cookie.partition("=")[2]
    assert all(word in form.headers["set-cookie"] for word in ("HttpOnly", "SameSite=strict"))
    forged = ask(console, "/sign-in", method="POST", form={"token": TOKEN, "mark": mark})
    assert forged.status == 403  # a form of another site comes without the cookie
    wrong = ask(console, "/sign-in", method="POST", form={"token": TOKEN[1:], "mark": mark}, headers={"Cookie": cookie})
    assert wrong.status == 403
    right = ask(console, "/sign-in", method="POST", form={"token": TOKEN, "mark": mark}, headers={"Cookie": cookie})
    assert right.status == 303
    session = right.headers["set-cookie"].partition(";")[0]
    assert run_id_of(1) in ask(console, "/", headers={"Cookie": session}).text
    out = ask(console, "/sign-out", method="POST", form={"mark": mark}, headers={"Cookie": f"{session}; {cookie}"})
    assert out.status == 303
    assert ask(console, "/", headers={"Cookie": session}).status == 303


def test_after_many_wrong_tokens_none_is_looked_at() -> None:
    now = [0.0]
    signed_in = SignedIn({TOKEN: "viewer"}, lambda: now[0])
    assert [signed_in.sign_in("x") for _ in range(10)] == [None] * 10
    assert signed_in.sign_in(TOKEN) is None
    now[0] = 61.0
    session = signed_in.sign_in(TOKEN)
    assert session is not None
    assert signed_in.role_of(session) == "viewer"
    now[0] += 13 * 3600
    assert signed_in.role_of(session) is None


@pytest.mark.parametrize(
    "address",
    [
        ConsoleAddress(EVERY),
        ConsoleAddress(EVERY, tokens={TOKEN: "approver"}),
        ConsoleAddress(EVERY, behind_proxy=True),
        ConsoleAddress(behind_proxy=True),
    ],
)
def test_without_token_or_tls_it_is_on_loopback_alone(address: ConsoleAddress) -> None:
    with pytest.raises(ConfigurationError) as refused:
        address.check()
    assert refused.value.reason == "configuration_invalid"
    ConsoleAddress(EVERY, tokens={TOKEN: "approver"}, behind_proxy=True, names=("console.example",)).check()


def test_the_bundle_of_a_run_is_shown_verified_and_taken_away(
    console: ServedConsole, tmp_path: Path, private_key: keys.PrivateKey
) -> None:
    run = hostile_run()
    sealing = BundleWriter(tmp_path / "runs").seal(run.run, run.transitions, run.store, Signer(private_key))
    sealed = asyncio.run(sealing)
    run.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="f" * 64, signer="key", location=sealed.location)))
    console.write(run.transitions)
    page = ask(console, f"/runs/{run.run_id}?verify=1").text
    assert "There is no candidate change" not in page
    assert "def f():" in Markup(page).text
    # This home does not trust the key that signed: that is said, and nothing is shown as proved.
    assert "Not verified." in Markup(page).text
    taken = ask(console, f"/runs/{run.run_id}/bundle.zip", binary=True)
    assert taken.headers["content-disposition"] == f'attachment; filename="{run.run_id}.zip"'
    assert taken.headers["content-type"] == "application/octet-stream"
    with zipfile.ZipFile(io.BytesIO(taken.data)) as archive:
        assert archive.read(f"{run.run_id}/patch.diff") == (tmp_path / "runs" / run.run_id / "patch.diff").read_bytes()


def test_a_bundle_for_which_there_is_no_room_is_refused_in_words(
    console: ServedConsole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_folder: Path, _file: Path, *, top: str) -> None:
        assert top
        raise OSError(errno.ENOSPC, "no room")

    run = hostile_run()
    run.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="f" * 64, signer="key", location="elsewhere")))
    console.write(run.transitions)
    run_id = run.run.run_id
    (tmp_path / "runs" / run_id).mkdir(parents=True)
    monkeypatch.setattr("gatewright.app.console.bundles.pack", full)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    refused = ask(console, f"/runs/{run_id}/bundle.zip")
    assert (refused.status, "disk_full" in refused.text) == (503, True), refused.text
    assert not list(tmp_path.glob("gatewright-console-*"))


def test_a_run_that_is_not_sealed_has_no_bundle_to_take_away(console: ServedConsole) -> None:
    console.write(make_run(1, "open"))
    answer = ask(console, f"/runs/{run_id_of(1)}/bundle.zip")
    assert answer.status >= 400
    assert "run_not_ended" in answer.text
