"""What an operator finds who asks a running stack who is there."""

from __future__ import annotations

import nats

from gatewright.bus.identities import PULLER
from gatewright.bus.topology import ROLES
from tests.discovery import answers_to
from tests.e2e.stack import Stack


async def test_an_operator_finds_every_process_of_a_running_stack_at_once(stack: Stack) -> None:
    seed = stack.state.address().seed
    client = await nats.connect(stack.state.url, nkeys_seed=str(seed), inbox_prefix="_INBOX_operator", allow_reconnect=False)
    processes = sorted(f"gw-{role}" for role in (*ROLES, PULLER) for _ in stack.members(role))
    assert len(processes) > len(ROLES)
    found = await answers_to(client, "$SRV.PING", lambda answers: len(answers) == len(processes))
    assert sorted(each["name"] for each in found) == processes
    assert len({each["id"] for each in found}) == len(processes)
    await client.close()
