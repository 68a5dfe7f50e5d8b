"""Decisions on the page: only a signed one, from a form of this page, of an approver's session, has an effect, and once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gatewright.app.console.decisions import MARK_HEADER
from gatewright.contracts import codec
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.rules.approvals import request_digest
from tests.console.conftest import MakeConsole, ServedConsole
from tests.console.deciding import PHRASE, open_deciding
from tests.console.test_pages import TOKEN, Answer, ask, send_json
from tests.git.repositories import MakeRepository
from tests.view.ledgers import make_run

VIEWER = "fedcba9876543210" * 2


def sign_in(console: ServedConsole, token: str) -> dict[str, str]:
    """The headers of a browser that has signed in, with the mark of its forms."""
    cookie = ask(console, "/sign-in").headers["set-cookie"].partition(";")[0]
    mark = cookie.partition("=")[2]
    answer = ask(console, "/sign-in", method="POST", form={"token": token, "mark": mark}, headers={"Cookie": cookie})
    return {"Cookie": f"{cookie}; {answer.headers['set-cookie'].partition(';')[0]}", MARK_HEADER: mark}


def reason(answer: Answer) -> tuple[int, str]:
    return answer.status, msgspec.json.decode(answer.data).get("reason", "")


def test_only_signed_decisions_from_an_approvers_page_count_once(tmp_path: Path, make_repository: MakeRepository) -> None:
    console = ServedConsole(tmp_path, decides=True, tokens={TOKEN: "approver", VIEWER: "viewer"})
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        viewer, approver = sign_in(console, VIEWER), sign_in(console, TOKEN)
        path = f"/requests/{deciding.request.request_id}?sha256={request_digest(deciding.request)}"
        honest = deciding.signed(phrase=PHRASE)

        # What an agent is given is the request itself, to the byte, as long as it is the one that was shown.
        assert ask(console, path, headers=approver).data == codec.encode(deciding.request)
        assert reason(ask(console, path, headers=viewer)) == (403, "role_not_allowed")
        assert reason(ask(console, path[:-1] + "x", headers=approver)) == (409, "approval_other_request")
        assert reason(ask(console, "/requests/run-nowhere.ask.1", headers=approver)) == (404, "approval_unknown")
        assert 'class="decide"' in ask(console, "/needs", headers=approver).text
        assert 'class="decide"' not in ask(console, "/needs", headers=viewer).text

        strangers: list[tuple[dict[str, str], int]] = [
            ({}, 303),
            (viewer, 403),
            ({"Cookie": approver["Cookie"]}, 403),
            ({**approver, MARK_HEADER: "x" * 43}, 403),
            ({**approver, "Origin": "http://attacker.example"}, 403),
        ]
        for headers, status in strangers:
            assert send_json(console, "/decisions", honest, headers).status == status
        forged: list[tuple[SignedDecision, str]] = [
            (deciding.signed(phrase=PHRASE, key="eve"), "approver_unknown"),
            (deciding.signed(phrase=PHRASE, key="ben"), "approver_differs"),
            (deciding.signed(phrase="Land it now"), "approval_phrase_differs"),
            (replace(honest, document=honest.document.replace("approve", "reject")), "signature_invalid"),
        ]
        for decision, code in forged:
            assert reason(send_json(console, "/decisions", decision, approver))[1] == code
        assert reason(send_json(console, "/decisions", b"{}", approver)) == (400, "malformed")
        assert reason(send_json(console, "/decisions", b"x" * 200_000, approver)) == (400, "malformed")
        assert deciding.status() == "RUNNING"

        with ThreadPoolExecutor(2) as twice:
            answers = list(twice.map(lambda _: send_json(console, "/decisions", honest, approver), range(2)))
        assert 200 in {answer.status for answer in answers}
        assert deciding.decided() == ["approve"]  # in the ledger once, whatever each was told
        assert deciding.status() == "SUCCESS"
        assert reason(send_json(console, "/decisions", honest, approver)) == (409, "approval_decided")


def test_a_console_that_only_looks_decides_nothing_and_names_no_agent(make_console: MakeConsole) -> None:
    console = make_console()
    console.write(make_run(1, "open"))
    page = ask(console, "/needs")
    cookie = page.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, MARK_HEADER: cookie.partition("=")[2]}
    assert reason(send_json(console, "/decisions", b"{}", headers)) == (409, "console_read_only")
    assert re.search(r"connect-src 'self'(;|$)", page.headers["content-security-policy"])
    assert "data-agent" not in page.text


def test_a_request_can_be_delegated_from_the_page(tmp_path: Path, make_repository: MakeRepository) -> None:
    console = ServedConsole(tmp_path, decides=True, tokens={TOKEN: "approver", VIEWER: "viewer"})
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        viewer, approver = sign_in(console, VIEWER), sign_in(console, TOKEN)
        handed = deciding.signed("delegate", delegate_to="ben")
        attacks: list[tuple[SignedDecision, str]] = [
            (deciding.signed("delegate", delegate_to="eve"), "delegate_unknown"),
            (deciding.signed("delegate", delegate_to="ana"), "delegate_not_allowed"),
            (deciding.signed("delegate"), "delegation_misplaced"),
            (deciding.signed("approve", phrase=PHRASE, delegate_to="ben"), "delegation_misplaced"),
            (deciding.signed("delegate", key="eve", delegate_to="ben"), "approver_unknown"),
            (replace(handed, document=handed.document.replace('"ben"', '"eve"')), "signature_invalid"),
        ]
        for decision, code in attacks:
            assert reason(send_json(console, "/decisions", decision, approver))[1] == code
        assert send_json(console, "/decisions", handed, viewer).status == 403
        assert deciding.decided() == []

        assert send_json(console, "/decisions", handed, approver).status == 200
        again: list[tuple[SignedDecision, str]] = [
            (handed, "approval_handed_on"),
            (deciding.signed(phrase=PHRASE), "approval_handed_on"),
            (deciding.signed("delegate", person="ben", key="ben", delegate_to="ana"), "approval_handed_on"),
        ]
        for decision, code in again:
            assert reason(send_json(console, "/decisions", decision, approver))[1] == code
        assert (deciding.decided(), deciding.status()) == (["delegate"], "RUNNING")

        accepted = deciding.signed(person="ben", key="ben", phrase=PHRASE)
        assert send_json(console, "/decisions", accepted, approver).status == 200
        assert (deciding.decided(), deciding.status()) == (["delegate", "approve"], "SUCCESS")
