"""Decisions by passkey over HTTP: made, challenged and brought on the conditions of every other decision."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatewright.rules.approvals import request_digest
from tests.console.conftest import MakeConsole, ServedConsole
from tests.console.deciding import PHRASE, DecidingConsole, open_deciding
from tests.console.test_deciding import VIEWER, reason, sign_in
from tests.console.test_pages import TOKEN, Answer, ask, send_json
from tests.console.virtual_authenticator import enter
from tests.git.repositories import MakeRepository
from tests.passkeys import SoftwarePasskey


def url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class PasskeyBrowser:
    """What the script of the page does, for a person who has signed in."""

    def __init__(self, deciding: DecidingConsole, headers: dict[str, str]) -> None:
        self.deciding, self.console = deciding, deciding.console
        host = f"localhost:{self.console.port}"
        self.passkey = SoftwarePasskey("localhost", f"http://{host}")
        self.headers = {**headers, "Host": host, "Origin": self.passkey.origin}

    def made(self) -> Answer:
        public = self.passkey.secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return send_json(self.console, "/passkey/key", {"public_key": url64(public)}, self.headers)

    def challenged(self, **fields: object) -> Answer:
        request = self.deciding.request
        order = {
            "request_id": request.request_id,
            "sha256": request_digest(request),
            "verdict": "approve",
            "person": "ana",
            "phrase": PHRASE,
        }
        return send_json(self.console, "/passkey/challenge", {**order, **fields}, self.headers)

    def answered(self, told: dict[str, str], **said: Any) -> Answer:
        challenge = told["challenge"] + "=" * (-len(told["challenge"]) % 4)
        assertion = self.passkey.asserted(base64.urlsafe_b64decode(challenge), **said)
        document = {
            "document": told["document"],
            "key": self.passkey.line,
            "client_data": url64(assertion.client_data),
            "authenticator_data": url64(assertion.authenticator_data),
            "signature": url64(assertion.signature),
        }
        return send_json(self.console, "/passkey/decision", document, self.headers)


@pytest.mark.long
def test_a_passkey_counts_once_the_operator_has_entered_it(tmp_path: Path, make_repository: MakeRepository) -> None:
    console = ServedConsole(tmp_path, decides=True, tokens={TOKEN: "approver", VIEWER: "viewer"})
    with open_deciding(console, make_repository(), tmp_path, phrase=PHRASE) as deciding:
        browser = PasskeyBrowser(deciding, sign_in(console, TOKEN))
        made = json.loads(browser.made().data)
        assert made["entry"] == browser.passkey.entry
        told = json.loads(browser.challenged().data)
        assert json.loads(told["document"])["person"] == "ana"
        assert reason(browser.answered(told)) == (409, "approver_unknown")
        enter(tmp_path / "policies", "ana", json.dumps({"name": "ana", "keys": [made["entry"]]}))

        # The console shows and brings; what counts is the gatekeeper's to say.
        other = json.loads(browser.challenged(verdict="reject").data)
        assert reason(browser.answered({**told, "challenge": other["challenge"]}))[1] == "signature_invalid"
        assert reason(browser.answered({**told, "document": other["document"]}))[1] == "signature_invalid"
        assert reason(browser.answered(told, origin="http://localhost:1"))[1] == "passkey_origin_differs"
        assert reason(browser.answered(told, flags=0x01))[1] == "passkey_person_unverified"
        assert reason(browser.answered(json.loads(browser.challenged(phrase="land it").data)))[1] == "approval_phrase_differs"
        assert reason(browser.answered(json.loads(browser.challenged(person="ben").data)))[1] == "approver_differs"
        assert deciding.status() == "RUNNING"

        # Nothing is asked or sent for a stranger, a viewer, or from a form of another page.
        honest = dict(browser.headers)
        for headers, status in (
            ({}, 303),
            ({**honest, **sign_in(console, VIEWER)}, 403),
            ({**honest, "X-Gatewright-Mark": "x" * 43, "x-gatewright-mark": "x" * 43}, 403),
            ({**honest, "Origin": "http://attacker.example"}, 403),
        ):
            browser.headers = headers
            assert [browser.made().status, browser.challenged().status, browser.answered(told).status] == [status] * 3
        browser.headers = honest
        assert reason(browser.challenged(sha256="0" * 64)) == (409, "approval_other_request")
        assert reason(browser.challenged(request_id="run-nowhere.ask.1")) == (404, "approval_unknown")
        for path in ("/passkey/key", "/passkey/challenge", "/passkey/decision"):
            assert reason(send_json(console, path, b"{}", honest)) == (400, "malformed")
            assert reason(send_json(console, path, b"x" * 100_000, honest)) == (400, "malformed")
        assert deciding.status() == "RUNNING"

        assert browser.answered(told).status == 200
        assert (deciding.decided(), deciding.status()) == (["approve"], "SUCCESS")
        assert reason(browser.answered(told)) == (409, "approval_decided")


def test_a_console_that_only_looks_makes_no_passkey(make_console: MakeConsole) -> None:
    console = make_console()
    page = ask(console, "/passkey")
    assert "You cannot decide here" in page.text
    cookie = page.headers["set-cookie"].partition(";")[0]
    headers = {"Cookie": cookie, "x-gatewright-mark": cookie.partition("=")[2]}
    assert reason(send_json(console, "/passkey/key", {"public_key": ""}, headers)) == (409, "console_read_only")
