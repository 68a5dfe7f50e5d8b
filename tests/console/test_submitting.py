"""The form: what it orders, what it wants, and that it is judged and sent by operators alone, once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.app.console.submitting import SubmitAccess, request_of
from gatewright.bus.memory.bus import MemoryBus
from gatewright.client.client import Client
from gatewright.contracts import RunRequest, codec
from gatewright.contracts.vocabulary import Scope
from gatewright.errors import MalformedError
from tests.client.conftest import ScriptedGatekeeper
from tests.console.conftest import ServedConsole
from tests.console.test_deciding import sign_in
from tests.console.test_pages import TOKEN, Markup, ask
from tests.report.conftest import HOSTILE
from tests.view.ledgers import make_run

VIEWER = "fedcba9876543210" * 2
FIELDS = {
    "request": "say hello",
    "repository": "/srv/repository",
    "paths": "src\n\n README.md ",
    "tests": "python -m pytest -q",
    "maker": "command",
    "command": "python tool.py",
    "idempotency_key": "0123456789abcdef",
}


def test_the_fields_of_the_form_are_a_run_request() -> None:
    made = request_of(
        {
            **FIELDS,
            "target_ref": "refs/heads/main",
            "policy_pack": "high",
            "environment": "/srv/env",
            "allow_dependencies": "on",
            "patch": "left from before",
        }
    )
    assert made.executor is not None
    assert (made.allowed_paths, made.executor.commands) == (("src", "README.md"), ("python tool.py",))
    assert [(test.cmd, test.must_pass) for test in made.acceptance_tests] == [("python -m pytest -q", True)]
    assert (made.repository.landing, made.policy_pack, made.idempotency_key) == ("target", "high", "0123456789abcdef")
    assert (made.artifacts, made.scope) == ((), Scope(allow_dependency_change=True))
    assert request_of(FIELDS).scope is None
    assert made.environment is not None
    assert made.environment.prefix == "/srv/env"


def test_a_pasted_patch_survives_the_browsers_line_ends() -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b \n"
    made = [request_of({**FIELDS, "maker": "patch", "patch": text}) for text in (patch, patch.replace("\n", "\r\n"))]
    assert made[0].artifacts == made[1].artifacts
    assert made[0].executor is not None
    assert made[0].executor.artifacts == (made[0].artifacts[0].name,)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"request": " "}, "/request"),
        ({"repository": ""}, "/repository"),
        ({"paths": "\n"}, "/paths"),
        ({"tests": ""}, "/tests"),
        ({"maker": "x"}, "/maker"),
        ({"command": ""}, "/command"),
        ({"maker": "patch", "patch": ""}, "/patch"),
        ({"policy_pack": "none"}, "/policy_pack"),
        ({"maker": "agent", "agent": "../x"}, "/executor/agent"),
    ],
)
def test_what_is_missing_or_wrong_is_named(changes: dict[str, str], pointer: str) -> None:
    with pytest.raises(MalformedError) as refused:
        request_of({**FIELDS, **changes})
    assert [fault.pointer for fault in refused.value.faults] == [pointer]


@dataclass
class Publisher:
    """A publisher's connection to a gatekeeper that takes what comes."""

    console: ServedConsole
    opened: int = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        self.opened += 1
        yield Client(MemoryBus(self.console.system))


def test_only_operators_submit_the_form_and_see_its_run(tmp_path: Path) -> None:
    console = ServedConsole(tmp_path, tokens={TOKEN: "operator", VIEWER: "viewer"})
    publisher = Publisher(console)
    place = CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem")
    given = submit_access(place, None, None)
    assert given is not None
    console.submit = SubmitAccess(publisher.connect, given.explain)
    console.open()
    gatekeeper = ScriptedGatekeeper(MemoryBus(console.system))
    console.do(gatekeeper.serve())
    console.write(make_run(1, "open"))
    operator, viewer = sign_in(console, TOKEN), sign_in(console, VIEWER)
    mark = {"mark": operator["x-gatewright-mark"]}

    form = ask(console, "/submit", headers=operator)
    assert (form.status, "<option value=" in form.text) == (200, True)
    assert re.search(r'name="idempotency_key" value="[0-9a-f]{32}"', form.text)
    refused = [
        ask(console, "/submit", headers=viewer),
        ask(console, "/submit", method="POST", form={**FIELDS, "mark": viewer["x-gatewright-mark"]}, headers=viewer),
        ask(console, "/submit", method="POST", form=FIELDS, headers=operator),
        ask(console, "/submit", method="POST", form={**FIELDS, "mark": "x" * 43}, headers=operator),
    ]
    assert [answer.status for answer in refused] == [403, 403, 403, 403]
    elsewhere = ask(
        console, "/submit", method="POST", form={**FIELDS, **mark}, headers={**operator, "Origin": "http://x.example"}
    )
    assert elsewhere.status == 403

    # The same rules as `policy explain`, and nothing is sent.
    good = ask(console, "/submit/check", method="POST", form={**FIELDS, **mark}, headers=operator)
    assert "Everything that this host can judge would pass" in good.text
    assert "It would pass" not in good.text
    assert "Role <b>WORKER</b>" in good.text
    bad = ask(console, "/submit/check", method="POST", form={**FIELDS, "command": "curl x | sh", **mark}, headers=operator)
    assert "It would be refused" in bad.text
    assert "command_not_allowed" in bad.text
    hostile = {**FIELDS, "request": HOSTILE, "paths": HOSTILE, "repository": HOSTILE, **mark}
    for path in ("/submit/check", "/submit"):
        told = Markup(ask(console, path, method="POST", form={**hostile, "tests": ""}, headers=operator).text)
        assert not {"img", "iframe", "style"} & told.tags
        assert {"/static/console.js", "/static/submitting.js"} >= set(told.scripts)
    assert (gatekeeper.received, publisher.opened) == ([], 0)

    sent = ask(console, "/submit", method="POST", form={**FIELDS, **mark}, headers=operator)
    assert (sent.status, sent.headers["location"]) == (303, "/runs/run-0123456789")
    (message,) = gatekeeper.received
    assert codec.decode(message.data, RunRequest) == request_of(FIELDS)
    console.close()
