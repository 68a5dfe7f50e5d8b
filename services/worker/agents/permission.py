"""What an agent that asks may have: the contract's word (specification 6.1.2), or a person's where the contract wants one.

Comfort for the agent, never the boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from gatewright.contracts.vocabulary import Shell
from gatewright.services.worker.agents.port import AgentOrder
from gatewright.tasks.questions import AnsweredBy, Leave

#: What a call is. ``read`` changes nothing, and everything in the box may be read.
What = Literal["command", "other", "network", "edit", "read"]


def may(what: What, order: AgentOrder) -> bool:
    """Return whether ``order`` permits ``what`` on request.

    Another call is one of a tool; the worker forwards those that the contract names. ``deny`` forbids commands. ``never``
    asks no person: the sandbox is the boundary, and an agent that asks may run what other agents run without asking.
    ``untrusted`` requires a person for each command, and ``on-request`` an approval, which the operator may have given
    beforehand.
    """
    if what == "read":
        return True
    if order.read_only:
        return False
    if what == "command":
        return order.shell == "never" or (order.standing_approval and order.shell == "on-request")
    return what == "edit" or (what == "other" and bool(order.tools))


#: Why a command is refused, and what an operator can do about it, by the shell permission.
REFUSED_COMMANDS: Final[Mapping[Shell, str]] = {
    "deny": "the contract denies commands (shell: deny); submit it with shell: never to allow them in the sandbox",
    "on-request": (
        "the contract wants a person's leave for commands (shell: on-request); run it with --interactive, set "
        "standing_approval of the agent in agents.json, or submit it with shell: never"
    ),
    "untrusted": (
        "the contract wants a person's leave for each command (shell: untrusted); run it with --interactive, or submit it with "
        "shell: never"
    ),
}


#: Who has answered a question.
By = AnsweredBy | Literal["contract"]
#: The shell permissions under which a command wants an approval.
_WANTS_APPROVAL: Final = frozenset({"on-request", "untrusted"})


async def leave_for(what: What, subject: str, order: AgentOrder, *, open_turn: bool) -> tuple[bool, By, str]:
    """Return whether the agent gets permission, by whose authority, and the person's name.

    A person is asked only about commands, where the contract requires approval, during a turn of this session (``open_turn``).
    The person can permit nothing beyond the contract.
    """
    if may(what, order):
        return open_turn, "contract", ""
    put = what == "command" and order.shell in _WANTS_APPROVAL and not order.read_only and open_turn
    if not put or order.ask is None:
        return False, "contract", ""
    leave: Leave = await order.ask(subject)
    return leave.allow, leave.by, leave.person
