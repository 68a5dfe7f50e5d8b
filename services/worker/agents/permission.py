"""What an agent that asks may have: the contract's word (specification 6.1.2). Comfort for the agent, never the boundary."""

from __future__ import annotations

from typing import Literal

from gatewright.services.worker.agents.port import AgentOrder

#: What a call is. ``read`` changes nothing, and everything in the box may be read.
What = Literal["command", "other", "network", "edit", "read"]


def may(what: What, order: AgentOrder) -> bool:
    """Whether ``order`` lets an agent that asks have ``what``.

    ``deny`` forbids commands, ``never`` rejects every command that asks, ``untrusted`` wants a person for each, and
    ``on-request`` wants an approval, which the operator may have given beforehand.
    """
    if what == "read":
        return True
    if order.read_only:
        return False
    if what == "command":
        return order.standing_approval and order.shell == "on-request"
    return what == "edit"
