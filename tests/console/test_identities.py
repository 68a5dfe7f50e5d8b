"""What a console is given for a bus that was named: the identities that its paths are for, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.people.inbox import for_approver
from gatewright.app.console.roles import may, read_tokens
from gatewright.bus.identities import BusAddress, make, seed_file
from gatewright.errors import ConfigurationError


def test_decisions_and_runs_are_brought_by_the_identity_that_may(tmp_path: Path) -> None:
    make(tmp_path / "bus")
    approver, publisher, watcher = (seed_file(tmp_path / "bus", name) for name in ("approver", "publisher", "watcher"))
    here = CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem")
    named = replace(here, bus=BusAddress("nats://127.0.0.1:1", watcher))
    assert for_approver(here, None) == here
    assert (for_approver(named, None), submit_access(named, None, None)) == (None, None)
    opened = for_approver(named, approver)
    assert opened is not None
    assert opened.bus == BusAddress("nats://127.0.0.1:1", approver)
    assert submit_access(named, None, publisher) is not None
    for given in (lambda: for_approver(named, publisher), lambda: submit_access(named, None, approver)):
        with pytest.raises(ConfigurationError) as refused:
            given()
        assert refused.value.reason == "identity_invalid"


def test_tokens_are_of_roles_and_one_token_is_of_one_role(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("look", "send", "again")}
    for name, file in files.items():
        file.touch(0o600)
        file.write_text(("0" if name == "look" else "1") * 32)
    found = read_tokens([f"viewer={files['look']}", str(files["send"])])
    assert found == {"0" * 32: "viewer", "1" * 32: "approver"}
    with pytest.raises(ConfigurationError, match="another role"):
        read_tokens([f"viewer={files['send']}", f"operator={files['again']}"])
    assert [may(role, "approver") for role in ("viewer", "approver", "operator")] == [False, True, True]
