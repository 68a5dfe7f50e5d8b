"""The signing agent: whom it answers, what it signs, and that it asks a person each time."""

from __future__ import annotations

import asyncio
import http.client
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.app.cli.people.agent_server import agent_origin, check_agent_address, origin_of, read_order, signing_summary
from gatewright.app.cli.people.sign_agent import SigningTerminal
from gatewright.app.cli.people.signing import public_key
from gatewright.contracts import ApprovalDecision, ApprovalList, ApprovalRequest, codec
from gatewright.errors import ConfigurationError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.resources import schema_directory
from gatewright.rules.approvals import NAMESPACE, request_digest
from gatewright.ssh_signatures import verify_ssh
from tests.console.agents import CODE, ServedAgent
from tests.report.conftest import HOSTILE

ORIGIN = "http://127.0.0.1:8790"
BEARER = {"Origin": ORIGIN, "Authorization": f"Bearer {CODE}"}
JSON = {"Content-Type": "application/json"}


def waiting(**changes: Any) -> ApprovalRequest:
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "full.json"
    return replace(codec.decode(example.read_bytes(), ApprovalList).approvals[0].request, **changes)


def order(request: ApprovalRequest, verdict: str = "approve", **said: Any) -> bytes:
    return msgspec.json.encode({"request": codec.encode(request).decode(), "verdict": verdict, **said})


def before(request: ApprovalRequest) -> datetime:
    return datetime.fromisoformat(request.created_at)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    keys.create(tmp_path / "key.pem")
    return tmp_path / "key.pem"


class BeforeItIsOver:
    """A clock that stands at the moment of the question."""

    def now(self) -> datetime:
        return before(waiting())

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def agent(key: Path) -> Iterator[ServedAgent]:
    served = ServedAgent(key, ORIGIN, BeforeItIsOver())
    served.open()
    yield served
    served.close()


def send(agent: ServedAgent, data: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", agent.port)
    connection.request(method, "/sign", data, headers)
    answer = connection.getresponse()
    found = (answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    connection.close()
    return found


def test_what_is_signed_is_a_decision_on_the_request_that_was_shown(key: Path, agent: ServedAgent) -> None:
    agent.person.free.set()
    request = waiting(phrase="land on main")
    status, headers, body = send(agent, order(request, comment="seen", phrase="land on main"), BEARER | JSON)
    assert (status, headers["access-control-allow-origin"]) == (200, ORIGIN)
    told = msgspec.json.decode(body)
    verify_ssh(public_key(key), NAMESPACE, told["document"].encode(), told["signature"])
    decision = codec.decode(told["document"].encode(), ApprovalDecision)
    said = (decision.request_sha256, decision.verdict, decision.person, decision.comment, decision.phrase)
    assert said == (request_digest(request), "approve", "ana", "seen", "land on main")
    assert told["document"] in agent.person.shown[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (BEARER | {"Origin": "http://attacker.example"}, 403),
        (BEARER | {"Origin": "null"}, 403),
        ({"Authorization": f"Bearer {CODE}"}, 403),
        (BEARER | {"Host": "attacker.example"}, 403),
        ({"Origin": ORIGIN}, 401),
        (BEARER | {"Authorization": f"Bearer {CODE[1:]}"}, 401),
    ],
)
def test_another_page_is_refused_before_a_person_is_asked(agent: ServedAgent, headers: dict[str, str], status: int) -> None:
    found, answered, _ = send(agent, order(waiting()), headers | JSON)
    assert found == status
    assert answered.get("access-control-allow-origin") in ({None} if status == 403 else {ORIGIN})
    asked, leave, _ = send(agent, b"", headers | {"Access-Control-Request-Method": "POST"}, "OPTIONS")
    assert (asked == 204, "access-control-allow-headers" in leave) == (status == 401, status == 401)
    assert agent.person.shown == []


def test_invalid_or_hopeless_orders_are_not_asked_about(agent: ServedAgent) -> None:
    whole, phrased = waiting(), waiting(phrase="land on main")
    for data, reason in (
        (b"{", "malformed"),
        (order(whole, "comment"), "malformed"),
        (order(whole, document="{}"), "malformed"),
        (order(whole, comment="x" * 70_000), "malformed"),
        (msgspec.json.encode({"request": codec.encode(whole).decode() + " ", "verdict": "approve"}), "approval_not_canonical"),
        (order(phrased), "approval_phrase_differs"),
        (order(phrased, phrase="Land on main"), "approval_phrase_differs"),
        (order(waiting(reason="review")), "vote_misplaced"),
        (order(whole, "delegate"), "delegation_misplaced"),
        (order(whole, delegate_to="ben"), "delegation_misplaced"),
        (order(whole, "reject", delegate_to="ben"), "delegation_misplaced"),
        (order(whole, "delegate", delegate_to="ana"), "delegate_not_allowed"),
        (order(whole, "delegate", delegate_to="a\x1bn"), "malformed"),
        (order(whole, "delegate", delegate_to="n" * 300), "malformed"),
        (order(waiting(reason="review"), "delegate", delegate_to="ben"), "vote_misplaced"),
        (order(waiting(expires_at=whole.created_at)), "approval_expired"),
    ):
        status, _, body = send(agent, data, BEARER | JSON)
        assert (status in {400, 409}, msgspec.json.decode(body)["reason"]) == (True, reason)
    assert send(agent, order(whole), BEARER)[0] == 400  # a form of another page says no JSON
    assert agent.person.shown == []


def test_a_terminal_refusal_signs_nothing_and_questions_never_overlap(agent: ServedAgent) -> None:
    agent.person.word = "reject"
    first = http.client.HTTPConnection("127.0.0.1", agent.port)
    first.request("POST", "/sign", order(waiting()), BEARER | JSON)
    agent.person.asked.wait()
    assert msgspec.json.decode(send(agent, order(waiting()), BEARER | JSON)[2])["reason"] == "service_busy"
    agent.person.free.set()
    answer = first.getresponse()
    assert (answer.status, msgspec.json.decode(answer.read())["reason"]) == (409, "signature_declined")
    first.close()
    assert len(agent.person.shown) == 1


def test_a_question_is_taken_back_when_its_page_goes(agent: ServedAgent) -> None:
    page = http.client.HTTPConnection("127.0.0.1", agent.port)
    page.request("POST", "/sign", order(waiting()), BEARER | JSON)
    agent.person.asked.wait()
    page.close()
    agent.person.taken_back.wait()
    agent.person.free.set()
    assert send(agent, order(waiting()), BEARER | JSON)[0] == 200


def test_the_signing_summary_is_printable_and_ends_with_the_decision() -> None:
    request = waiting(why=HOSTILE, user_request=HOSTILE)
    ordered = read_order(order(request, "reject", comment=HOSTILE), "ana", before(request))
    lines = signing_summary(ordered, "key")
    assert all(line.isprintable() or not line for line in lines)
    assert lines[-4] == f"ana answers REJECT to {request.request_id}"


@pytest.mark.parametrize(("typed", "agreed"), [(b"approve\n", True), (b"\n", False), (b"yes\n", False), (b"reject\n", False)])
async def test_the_terminal_wants_the_word_and_nothing_that_was_typed_before(
    typed: bytes, agreed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    person, terminal = os.openpty()
    os.write(person, b"approve\n")
    asking = asyncio.create_task(SigningTerminal(terminal).agrees(["what is asked"], "approve"))
    await asyncio.sleep(0)  # it asks before it waits
    assert capsys.readouterr().out.startswith("what is asked\ntype approve")
    await asyncio.sleep(0)
    assert not asking.done()
    os.write(person, typed)
    assert await asking is agreed
    os.close(person)
    os.close(terminal)


def test_without_a_terminal_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="ascii") as nothing:  # noqa: PTH123 - a device
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(ConfigurationError, match="asks before it signs"):
            SigningTerminal.own()


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("http://127.0.0.1:8790", "http://127.0.0.1:8790"),
        ("https://console.example:443/needs", "https://console.example"),
        ("http://[::1]:8790", "http://[::1]:8790"),
    ],
)
def test_a_console_is_named_by_its_origin(address: str, origin: str) -> None:
    assert origin_of(address) == origin


@pytest.mark.parametrize("address", ["http://console.example", "ftp://127.0.0.1", "127.0.0.1:8790", "https://", "http://h:x"])
def test_a_console_that_others_could_speak_for_is_refused(address: str) -> None:
    with pytest.raises(GatewrightError):
        origin_of(address)


def test_an_agent_is_on_loopback_alone() -> None:
    assert agent_origin("http://localhost:8791") == "http://localhost:8791"
    for refused in ("https://elsewhere.example", "http://10.0.0.1:8791"):
        with pytest.raises(ConfigurationError):
            agent_origin(refused)
    with pytest.raises(ConfigurationError):
        check_agent_address("10.0.0.1")


def test_a_delegation_is_signed_and_shown_for_the_named_person(key: Path, agent: ServedAgent) -> None:
    agent.person.word = "delegate"
    agent.person.free.set()
    request = waiting(phrase="land on main")
    status, _, body = send(agent, order(request, "delegate", delegate_to="ben", comment="yours"), BEARER | JSON)
    told = msgspec.json.decode(body)
    verify_ssh(public_key(key), NAMESPACE, told["document"].encode(), told["signature"])
    decision = codec.decode(told["document"].encode(), ApprovalDecision)
    said = (decision.request_sha256, decision.verdict, decision.delegate_to, decision.phrase)
    assert (status, said) == (200, (request_digest(request), "delegate", "ben", ""))
    assert "ana answers DELEGATE to" in agent.person.shown[0]
    assert "handed to   ben" in agent.person.shown[0]
