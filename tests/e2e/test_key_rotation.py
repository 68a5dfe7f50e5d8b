"""The signing key is replaced while runs are at work: none waits, none is lost, and every bundle verifies."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, Stack, slow_request, wait_until
from tests.waiting import PATIENCE


def signer_of(stack: Stack, run_id: str) -> str:
    told = stack.command("verify", run_id, "--json")
    assert told.returncode == 0, told.stdout
    signer: str = json.loads(told.stdout)["signer"]
    return signer


@pytest.mark.long
def test_a_run_during_key_rotation_uses_the_new_key(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    with stack.client() as client:
        before = client.wait(client.submit_request(slow_request(project, 0.0), patience=PATIENCE), timeout=SECONDS)
        at_work = client.submit_request(slow_request(project, 1.0), patience=PATIENCE)
        wait_until(lambda: client.get(at_work).state == "S2")
        rotated = json.loads(stack.command("keys", "rotate", "--json").stdout)
        after = client.wait(at_work, timeout=SECONDS)
        gatekeeper = stack.members("gatekeeper")[0]
    assert after.status == "SUCCESS"
    assert signer_of(stack, before.run_id) == rotated["retired"]
    assert signer_of(stack, after.run_id) == rotated["key_id"]
    assert gatekeeper.restarts == 0
