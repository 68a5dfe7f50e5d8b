"""The inbox on the command line: signing with either kind of key, the lists, and notices that are tried again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.app.cli.context import find_place
from gatewright.app.cli.people.deciding import Answer, signed_answers
from gatewright.app.cli.people.inbox import most_urgent_first, named, page, statistics_of, table
from gatewright.app.cli.people.notices import Notifier, digest, watch_inbox
from gatewright.app.cli.people.signing import public_key, sign_decision, usual_key
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import APPROVALS_SUBJECT
from gatewright.contracts import ApprovalDecision, ApprovalList, codec
from gatewright.contracts.people.approvals import ApprovalStanding, Delegation, QuotedWords
from gatewright.errors import ConfigurationError, MalformedError, UnavailableError
from gatewright.evidence.signing import keys
from gatewright.resources import schema_directory
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.rules.people.delegations import waited_for
from gatewright.ssh_signatures import verify_ssh
from tests.openssh_account import needs_account
from tests.unauthenticated_nats import OpenServer

NOW = datetime(2026, 5, 4, 11, tzinfo=UTC)


def standings() -> tuple[ApprovalStanding, ...]:
    """One that waits and one that was approved after an hour, with a patch."""
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "full.json"
    waiting, approved = codec.decode(example.read_bytes(), ApprovalList).approvals
    later = NOW.isoformat().replace("+00:00", ".000Z")
    return waiting, replace(approved, decided_at=later)


def make_key(folder: Path, kind: str) -> Path:
    if kind == "pem":
        keys.create(folder / "key.pem")
        return folder / "key.pem"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "ana at home", "-f", folder / "id"], check=True)
    return folder / "id"


@needs_account
@pytest.mark.parametrize("kind", ["pem", "ed25519", "ecdsa"])
def test_a_decision_is_signed_with_the_key_that_a_person_has(kind: str, tmp_path: Path) -> None:
    key = make_key(tmp_path, kind)
    request = standings()[0].request
    decision = decision_on(request, verdict="approve", person="ana", decided_at=request.created_at)
    signed = sign_decision(decision, key)
    verify_ssh(public_key(key), NAMESPACE, signed.document.encode(), signed.signature)
    assert "ana" not in public_key(key)


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none"):
        usual_key(tmp_path)
    with pytest.raises(ConfigurationError, match="nowhere"):
        public_key(tmp_path / "nowhere")


def test_a_signing_failure_quotes_ssh_keygen(tmp_path: Path) -> None:
    broken = tmp_path / "id"
    broken.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    broken.chmod(0o600)
    request = standings()[0].request
    with pytest.raises(ConfigurationError, match="ssh-keygen does not sign"):
        sign_decision(decision_on(request, verdict="approve", person="ana", decided_at=request.created_at), broken)


def test_what_is_of_high_risk_and_has_little_time_comes_first() -> None:
    waiting, approved = standings()
    soon = replace(waiting, request=replace(waiting.request, expires_at="2026-05-04T12:00:00.000Z"))
    assert most_urgent_first([waiting, soon, approved]) == [approved, soon, waiting]


def test_the_list_and_the_page_show_what_a_person_needs() -> None:
    waiting, approved = standings()
    lines = table([waiting, approved], NOW)
    assert "60 min" in lines[1]
    assert waiting.request.why in "\n".join(lines[1:])
    text = "\n".join(page(approved))
    for words in ("land on main", "tests: PASS", "on silence", approved.request.candidate_tree, "diff --git"):
        assert words in text


def test_text_of_a_stranger_cannot_lead_the_terminal() -> None:
    (waiting, approved) = standings()
    hostile = replace(waiting, request=replace(waiting.request, why="\x1b[2Jgone", user_request="\u202eevil"))
    quoted = (QuotedWords(speaker="\x1b[2J", about="question", text="\u202eevil"),)
    assert approved.summary is not None
    told = replace(approved.summary, title="\u202eevil", why="\x1b[2Jgone", ordered_by=("\x1b[2J",), quoted=quoted)
    hostile_summary = replace(approved, summary=told)
    text = "\n".join([*page(hostile), *page(hostile_summary), *table([hostile, hostile_summary], NOW)])
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_run_id_selects_its_requests_and_unknown_ids_none() -> None:
    waiting, approved = standings()
    assert named([waiting, approved], [waiting.request.run_id]) == [waiting, approved]
    assert named([waiting, approved], [waiting.request.request_id]) == [waiting]
    with pytest.raises(MalformedError) as refusal:
        named([waiting], ["run-elsewhere0000"])
    assert refusal.value.reason == "approval_unknown"


def test_a_delegated_request_names_its_delegate_and_is_announced_again() -> None:
    (waiting, _) = standings()
    handed = replace(waiting, delegations=(Delegation(person="ana", to="ben", at="2026-05-04T10:30:00.000Z"),))
    assert "(handed to ben)" in table([handed], NOW)[1]
    assert "by ana to ben at 2026-05-04T10:30:00.000Z" in "\n".join(page(handed))
    notifier = Notifier()
    notifier.given("screen", [waiting])
    assert notifier.new("screen", [waiting]) == []
    assert notifier.new("screen", [handed]) == [handed]


@pytest.mark.parametrize(
    ("approvers", "handed", "waits"),
    [
        (("ana", "@release"), (("ana", "ben"),), ("ben", "@release")),
        (("ana", "@release"), (("ana", "ben"), ("ben", "carl")), ("carl", "@release")),
        (("@release",), (("ana", "ben"),), ("@release", "ben")),
        (("ana", "ben"), (("ana", "ben"),), ("ben",)),
        (("ana",), (), ("ana",)),
    ],
)
def test_a_request_waits_for_who_has_it_now(
    approvers: tuple[str, ...], handed: tuple[tuple[str, str], ...], waits: tuple[str, ...]
) -> None:
    known = [Delegation(person=person, to=to, at="") for person, to in handed]
    assert waited_for(approvers, known) == waits


def test_a_delegation_is_signed_with_the_delegates_name(tmp_path: Path) -> None:
    key = make_key(tmp_path, "pem")
    (signed,) = signed_answers(standings()[:1], Answer("delegate", "ana", key, delegate_to="ben"), NOW)
    decision = codec.decode(signed.document.encode(), ApprovalDecision)
    assert (decision.verdict, decision.person, decision.delegate_to) == ("delegate", "ana", "ben")
    verify_ssh(public_key(key), NAMESPACE, signed.document.encode(), signed.signature)


def test_a_rule_that_always_gets_a_yes_can_be_seen() -> None:
    waiting, approved = standings()
    landing, scope = statistics_of([waiting, approved, approved])
    assert (landing.rule, landing.asked, landing.approved, landing.median_wait_sec) == ("main", 2, 2, 3600.0)
    assert (scope.rule, scope.asked, scope.pending, scope.median_wait_sec) == ("whole-directories", 1, 1, None)


@dataclass
class Hook:
    """A webhook that refuses as often as it is told to."""

    refusals: int = 0
    retry_after: str = ""
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    server: HTTPServer = field(init=False)

    def __post_init__(self) -> None:
        hook = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                hook.keys.append(self.headers["Idempotency-Key"])
                hook.refusals -= 1
                self.send_response(503 if hook.refusals >= 0 else 204)
                if hook.retry_after:
                    self.send_header("Retry-After", hook.retry_after)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook(refusals=1)
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_failed_webhook_is_retried_and_then_gets_nothing_twice(hook: Hook) -> None:
    now = iter(range(0, 1000, 100))
    notifier, found = Notifier(webhook=hook.url, clock=lambda: next(now)), standings()
    for _ in range(3):
        notifier.send_notices(found)
    assert len(hook.bodies) == 2
    assert hook.bodies[0] == hook.bodies[1]
    assert hook.keys[0] == hook.keys[1]
    notifier.send_notices([*found, replace(found[0], request=replace(found[0].request, request_id="run-other0000.ask.1"))])
    assert json.loads(hook.bodies[2])["waiting"] == 1


@pytest.mark.parametrize(("retry_after", "pause"), [("", 2.0), ("30", 30.0), ("1", 2.0), ("99999", 3600.0), ("tomorrow", 2.0)])
def test_a_webhook_is_called_again_when_it_asks_for_and_not_before(hook: Hook, retry_after: str, pause: float) -> None:
    hook.retry_after = retry_after
    now = [0.0]
    notifier, found = Notifier(webhook=hook.url, clock=lambda: now[0]), standings()
    for moment, calls in ((0.0, 1), (pause - 0.5, 1), (pause, 2)):
        now[0] = moment
        notifier.send_notices(found)
        assert len(hook.bodies) == calls
    assert hook.keys[0] == hook.keys[1]


def test_all_that_is_new_comes_in_one_digest_without_patch_and_words(hook: Hook) -> None:
    hook.refusals = 0
    Notifier(webhook=hook.url).send_notices(standings())
    (body,) = hook.bodies
    assert json.loads(body)["waiting"] == 2
    for kept in (b"diff --git", b"new layout", b"git.example.org"):
        assert kept not in body


def test_a_command_receives_the_digest_and_is_retried_on_failure(tmp_path: Path) -> None:
    script, told = tmp_path / "tell.py", tmp_path / "told"
    lines = ("import pathlib, sys", f"file = pathlib.Path({str(told)!r})", "first = not file.exists()")
    script.write_text("\n".join([*lines, "file.write_bytes(sys.stdin.buffer.read())", "sys.exit(first)"]))
    notifier = Notifier(command=f"{sys.executable} {script}")
    notifier.send_notices(standings())
    assert len(notifier.new("command", standings())) == 2
    notifier.send_notices(standings())
    assert notifier.new("command", standings()) == []
    assert json.loads(told.read_bytes()) == msgspec.to_builtins(digest(standings()))


@pytest.mark.parametrize(("command", "delivered"), [("true", True), ("false", False), ("no-such-program", False)])
async def test_watching_once_fails_where_a_notice_was_not_delivered(
    command: str, delivered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_message: Message) -> Reply:
        return Reply(codec.encode(ApprovalList(approvals=standings()[:1], more=False)), "approval_list.v1")

    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        monkeypatch.setenv("GATEWRIGHT_NATS_URL", server.url)
        monkeypatch.chdir(tmp_path)
        gatekeeper = await JetStreamBus.connect(server.url, name="gatekeeper")
        await gatekeeper.serve("gw-gatekeeper", {APPROVALS_SUBJECT: answer})
        watched = watch_inbox(find_place(), Notifier(command=command), 1.0, once=True, json_output=False)
        with nullcontext() if delivered else pytest.raises(UnavailableError, match="not delivered"):
            await watched
        await gatekeeper.close()


@pytest.mark.parametrize("url", ["http://chat.example.org/", "file:///etc/passwd", "ftp://127.0.0.1/"])
def test_a_webhook_without_encryption_is_for_this_host_only(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Notifier(webhook=url)


def test_ages_are_those_of_the_clock() -> None:
    (waiting, _) = standings()
    assert "2 d" in table([waiting], NOW + timedelta(days=2))[1]
