"""A stand-in forge on a port of this host, with a token, and webhooks signed as this forge signs them."""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import uvicorn

from gatewright.contracts.forge_policy import ForgeKind
from tests.forge.standin.app import Face, StandinApp
from tests.forge.standin.faults import Fault
from tests.forge.standin.gitea_face import GiteaFace
from tests.forge.standin.github_face import GitHubFace
from tests.forge.standin.gitlab_face import GitLabFace
from tests.forge.standin.state import ForgeState
from tests.waiting import wait_until

TOKEN = "token-of-the-stand-in-forge-0123456789"
SECRET = b"secret-of-the-webhooks"
_FACES: Mapping[ForgeKind, Callable[[ForgeState, str], Face]] = {
    "github": GitHubFace,
    "gitlab": GitLabFace,
    "gitea": GiteaFace,
}


class Standin:
    """A context: ``with Standin("github") as forge``. At its end no call may have differed from the official description."""

    def __init__(self, kind: ForgeKind, state: ForgeState | None = None) -> None:
        self.kind: ForgeKind = kind
        self.token = TOKEN
        self.secret = SECRET
        self.app = StandinApp(_FACES[kind](state or ForgeState(), TOKEN))
        config = uvicorn.Config(
            self.app, port=0, lifespan="off", log_level="critical", access_log=False, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()), daemon=True)
        self.api = ""

    @property
    def state(self) -> ForgeState:
        return self.app.face.state

    @property
    def project(self) -> str:
        return self.state.project

    def __enter__(self) -> Self:
        self._thread.start()
        assert wait_until(lambda: self._server.started)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.api = f"http://127.0.0.1:{port}{self.app.face.root}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join()
        if error is None:
            assert self.app.violations == []

    def fail(self, fault: Fault) -> None:
        """Let the next calls fail."""
        self.app.faults.append(fault)

    def recover(self) -> None:
        """End all faults."""
        self.app.faults.clear()

    def reset(self) -> None:
        """Start with an empty project, without faults and calls. No call before may have differed from the description."""
        violations = list(self.app.violations)
        self.app.face.state = ForgeState()
        for record in (self.app.faults, self.app.calls, self.app.violations):
            record.clear()
        assert violations == []

    def calls(self, method: str) -> list[str]:
        """Return the paths of the calls with this method, in order."""
        return [call.path for call in self.app.calls if call.method == method]

    def webhook(self, number: int, delivery_id: str = "delivery-1") -> tuple[dict[str, str], bytes]:
        """Return headers (lower case) and body of the webhook about a changed request."""
        return signed(self.kind, request_event(self.kind, self.project, number), delivery_id)


def request_event(kind: ForgeKind, project: str, number: int) -> Any:
    """Return the parts of the webhook of a changed request by which the forges differ."""
    if kind == "gitlab":
        attributes = {"iid": number, "action": "update", "state": "opened"}
        return {"object_kind": "merge_request", "project": {"path_with_namespace": project}, "object_attributes": attributes}
    return {
        "action": "synchronize",
        "number": number,
        "pull_request": {"number": number, "state": "open"},
        "repository": {"full_name": project},
    }


def signed(
    kind: ForgeKind, event: Any, delivery_id: str = "delivery-1", name: str = "pull_request", secret: bytes = SECRET
) -> tuple[dict[str, str], bytes]:
    """Return headers (lower case) and body of a webhook, signed as the forge signs it."""
    body = json.dumps(event).encode()
    digits = hmac.digest(secret, body, "sha256").hex()
    match kind:
        case "github":
            own = {"x-github-event": name, "x-github-delivery": delivery_id}
            return own | {"x-hub-signature-256": f"sha256={digits}"}, body
        case "gitea":
            own = {"x-gitea-event": name, "x-gitea-delivery": delivery_id, "x-gitea-signature": digits}
            return own | {"x-hub-signature-256": f"sha256={digits}"}, body
    own = {"x-gitlab-event": "Merge Request Hook", "x-gitlab-event-uuid": "changes-with-each-try"}
    return own | {"idempotency-key": delivery_id, "x-gitlab-token": secret.decode()}, body
