"""What an agent that asks may have: the contract's word (specification 6.1.2), or a person's where the contract wants one.

Comfort for the agent, never the boundary.
"""

from __future__ import annotations

from typing import Final, Literal

from gatewright.services.worker.agents.port import AgentOrder
from gatewright.tasks.questions import AnsweredBy, Leave

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


#: Who has answered a question.
By = AnsweredBy | Literal["contract"]
#: The shell permissions under which a command wants an approval.
_WANTS_APPROVAL: Final = frozenset({"on-request", "untrusted"})


async def leave_for(what: What, subject: str, order: AgentOrder, *, open_turn: bool) -> tuple[bool, By, str]:
    """Whether the agent gets what it asks for, who said so, and the person's name.

    A person is asked for nothing but commands, where the contract wants them approved and leaves them open, while a turn of
    our session is under way (``open_turn``); and can give nothing that the contract does not leave open.
    """
    if may(what, order):
        return open_turn, "contract", ""
    put = what == "command" and order.shell in _WANTS_APPROVAL and not order.read_only and open_turn
    if not put or order.ask is None:
        return False, "contract", ""
    leave: Leave = await order.ask(subject)
    return leave.allow, leave.by, leave.person
