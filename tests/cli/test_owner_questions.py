"""Who signs on the stack of a home folder, and what its owner is shown before the answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.people.signing import owns_rule, signing_identity
from gatewright.app.cli.run.questions import question_lines
from gatewright.app.stack import state
from gatewright.app.stack.own_policies import own_policies, owner_name
from gatewright.app.stack.processes import identity
from gatewright.bus.identities import BusAddress
from gatewright.contracts import ApprovalRequest, codec
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing.keys import home_key
from gatewright.resources import schema_directory

WORKFLOW = ".github/workflows/test.yml"


def standing(why: str, patch: str) -> ApprovalStanding:
    example = schema_directory() / "examples" / "approval_request.v1" / "valid" / "minimal.json"
    request = replace(codec.decode(example.read_bytes(), ApprovalRequest), reason="protected_class", why=why)
    return ApprovalStanding(request=request, request_sha256="0" * 64, status="pending", patch=patch)


def patch_of(path: str, *lines: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return head + "".join(f"+{line}\n" for line in lines)


def stack_with(home: Path, policies: str) -> CommandContext:
    """A home folder in which this process holds a stack with these policies."""
    who = identity(os.getpid())
    assert who is not None
    running = state.StackState(
        pid=os.getpid(), boot=who.boot, started=who.started, url="nats://127.0.0.1:1", keys=str(home / "bus"), home=str(home),
        shared=True, workers=1, policies=policies,
    )  # fmt: skip
    state.write(home, running)
    return CommandContext(home, home, None, home_key(home))


def test_ci_file_lines_are_shown_and_others_are_counted() -> None:
    patch = patch_of(WORKFLOW, "on: push") + patch_of("src/app.py", "secret_of_the_source = 1")
    lines = list(question_lines(standing(f"ci: {WORKFLOW}", patch)))
    assert f"  {WORKFLOW}  added  +1 -0" in lines
    assert "  src/app.py  added  +1 -0" in lines
    assert "  | +on: push" in lines
    assert not any("secret_of_the_source" in line for line in lines)


def test_what_is_left_out_of_the_question_is_counted() -> None:
    lines = list(question_lines(standing(f"ci: {WORKFLOW}", patch_of(WORKFLOW, *map(str, range(200))))))
    assert any("125 lines are left out" in line for line in lines)


def test_where_not_all_ci_files_are_named_every_file_is_shown() -> None:
    patch = patch_of(WORKFLOW, "on: push") + patch_of(".github/workflows/other.yml", "on: schedule")
    lines = list(question_lines(standing(f"ci: {WORKFLOW} and 1 more", patch)))
    assert "  | +on: schedule" in lines


def test_the_owner_signs_with_the_key_of_the_home(tmp_path: Path) -> None:
    place = stack_with(tmp_path, str(own_policies(tmp_path)))
    assert owns_rule(place)
    assert signing_identity(place, "", None) == (owner_name(), place.key)
    assert signing_identity(place, "", tmp_path / "mine.pem")[1] == tmp_path / "mine.pem"


@pytest.mark.parametrize("person", ["", "ana"])
def test_with_policies_of_the_operator_the_key_of_the_home_signs_nothing(
    person: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    place = stack_with(tmp_path, "/etc/gatewright/policies")
    assert not owns_rule(place)
    with pytest.raises(ConfigurationError, match="no key was named"):
        signing_identity(place, person, None)


def test_another_person_does_not_sign_with_the_key_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    place = stack_with(tmp_path, str(own_policies(tmp_path)))
    with pytest.raises(ConfigurationError, match="no key was named"):
        signing_identity(place, "ana", None)


def test_a_bus_that_was_named_is_no_home_of_ones_own(tmp_path: Path) -> None:
    place = stack_with(tmp_path, str(own_policies(tmp_path)))
    assert not owns_rule(CommandContext(place.here, place.home, BusAddress("nats://127.0.0.1:1", None), place.key))
