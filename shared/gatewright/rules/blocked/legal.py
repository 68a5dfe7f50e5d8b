"""Which questions are blocks, and which are preferences that an agent decides by itself (OmegaOS, prompt protocols). Pure.

A block is legal when only the person who is asked can settle it, work goes on meanwhile, and it goes on without an answer.
"""

from __future__ import annotations

import re

from gatewright.contracts import Blocked
from gatewright.errors import Fault, MalformedError

ILLEGAL = "blocked_illegal"
#: The file of questions, in the root of the repository; the name is reserved where the repository has none of its own.
BLOCKED_NAME = ".gatewright-blocked.json"
#: Preferences that are put as questions: the agent that asks them decides and goes on.
_PREFERENCES = re.compile(  # noqa: TID251 - linear: each try ends where the next one begins
    r"which (path|option|approach|one) (should|would|do)|should i (proceed|continue|go on)|await(ing)? (confirmation|approval)"
    r"|confirm before|like to confirm|would you prefer|validate the approach|may i (proceed|continue)",
    re.IGNORECASE,
)


def check(blocked: Blocked) -> tuple[Fault, ...]:
    """Why a document is no legal block, as far as its fields can tell; empty when it is one."""
    faults: list[Fault] = []
    if not blocked.can_resume_without_answer:
        faults.append(Fault("/can_resume_without_answer", ILLEGAL, "an agent that is blocked must go on without an answer"))
    if not blocked.best_guess.strip():
        faults.append(Fault("/best_guess", ILLEGAL, "it guesses nothing: say what you would do"))
    if not blocked.fallback_action.strip():
        faults.append(Fault("/fallback_action", ILLEGAL, "nothing is being done meanwhile"))
    if _PREFERENCES.search(blocked.question):
        faults.append(Fault("/question", ILLEGAL, "a preference and no block: decide and go on"))
    return tuple(faults)


def refuse_illegal(blocked: Blocked) -> None:
    """Raises MalformedError (``blocked_illegal``) with every fault that ``check`` finds."""
    faults = check(blocked)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=ILLEGAL)
