"""doctor --cluster on a stack that runs: every role answers over the bus, and says how it is."""

from __future__ import annotations

import json

from gatewright.bus.identities import PULLER
from gatewright.bus.topology import ROLES
from gatewright.version import __version__
from tests.e2e.stack import Stack


def test_every_role_reports_its_version_and_problems_are_named(stack: Stack) -> None:
    done = stack.command("doctor", "--cluster", "--json")
    told = json.loads(done.stdout)
    assert {each["role"] for each in told["processes"]} == {*ROLES, PULLER}
    assert {each["version"] for each in told["processes"]} == {__version__}
    assert {each["code"] for each in told["findings"]} >= {"gatekeeper_single"}
    assert not [each for each in told["findings"] if each["code"] in ("clock_skew", "role_not_ready", "role_silent")]
    assert done.returncode == (0 if told["ok"] else 3)


def test_a_queue_that_is_held_back_is_named(stack: Stack) -> None:
    assert stack.command("queue", "pause", "reviewer", "--for", "90s").returncode == 0
    try:
        told = json.loads(stack.command("doctor", "--cluster", "--json").stdout)
    finally:
        assert stack.command("queue", "resume", "reviewer").returncode == 0
    assert "queue_paused" in {each["code"] for each in told["findings"]}


def test_a_non_operator_identity_is_refused_with_the_reason(stack: Stack) -> None:
    seed = stack.home / "bus" / "publisher.nk"
    extra = {"GATEWRIGHT_NATS_URL": stack.state.url, "GATEWRIGHT_NATS_SEED": str(seed)}
    done = stack.command("doctor", "--cluster", "--json", extra=extra)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (3, "operator_needed")
