"""How every form of Codex that asks is answered: by what it asks for, with one word for yes and one for no."""

from __future__ import annotations

from gatewright.services.worker.agents.permission import What, leave_for
from gatewright.services.worker.agents.port import AgentOrder, Asked
from gatewright.services.worker.agents.telling import AgentReporter


async def is_allowed(
    telling: AgentReporter, order: AgentOrder, asked: tuple[Asked, What], subject: str, words: tuple[str, str], *, ours: bool
) -> bool:
    """Whether leave is given, which is told.

    ``asked``: what the question is called, and what it is for; ``words`` are the answers that were offered; ``ours``: it is of
    the turn that is under way.
    """
    named, what = asked
    allowed, by, person = await leave_for(what, subject, order, open_turn=ours)
    telling.answered(named, subject, "allow" if allowed else "reject", words, by, person)
    if what == "command" and order.shell == "deny":
        telling.problem("policy_violation: the contract forbids commands, and the agent asked for one")
    return allowed
