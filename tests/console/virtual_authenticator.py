"""An authenticator inside the browser (Chrome DevTools Protocol, WebAuthn): it makes passkeys and signs as a real one does."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import CDPSession, Page


class VirtualAuthenticator:
    """Of one page. ``recognised`` False: the person touches it, and is not recognised."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        self._id = made["authenticatorId"]

    def recognises(self, yes: bool) -> None:
        """Whether the person is recognised from now on."""
        self._session.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": yes})


def enter(policies: Path, person: str, entry: str) -> None:
    """What the operator does with the entry that the page gave: a key beside the person's others."""
    file = policies / "approvers.json"
    document = json.loads(file.read_text())
    made = json.loads(entry)
    assert made["name"] == person
    known = next((each for each in document["people"] if each["name"] == person), None)
    if known is None:
        document["people"].append(made)
    else:
        known["keys"] += made["keys"]
    file.write_text(json.dumps(document))
