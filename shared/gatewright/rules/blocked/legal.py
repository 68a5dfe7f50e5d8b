"""Legal questions, as opposed to preferences that an agent decides by itself (OmegaOS, prompt protocols). Pure.

A question is legal when only the person asked can answer it, work continues meanwhile, and work continues without an answer.
"""

from __future__ import annotations

import re

from gatewright.contracts import Blocked
from gatewright.errors import Fault, MalformedError

ILLEGAL = "blocked_illegal"
#: The file of questions in the root of the repository; the name is reserved unless the repository has its own such file.
BLOCKED_NAME = ".gatewright-blocked.json"
#: Preferences phrased as questions: the agent decides these and continues.
_PREFERENCES = re.compile(  # noqa: TID251 - linear: each try ends where the next one begins
    r"which (path|option|approach|one) (should|would|do)|should i (proceed|continue|go on)|await(ing)? (confirmation|approval)"
    r"|confirm before|like to confirm|would you prefer|validate the approach|may i (proceed|continue)",
    re.IGNORECASE,
)


def check(blocked: Blocked) -> tuple[Fault, ...]:
    """Return why a document is no legal question, by its fields; empty when it is one."""
    faults: list[Fault] = []
    if not blocked.can_resume_without_answer:
        faults.append(Fault("/can_resume_without_answer", ILLEGAL, "an agent that is blocked must go on without an answer"))
    if not blocked.best_guess.strip():
        faults.append(Fault("/best_guess", ILLEGAL, "the best guess is empty: state what you would do"))
    if not blocked.fallback_action.strip():
        faults.append(Fault("/fallback_action", ILLEGAL, "nothing is being done meanwhile"))
    if _PREFERENCES.search(blocked.question):
        faults.append(Fault("/question", ILLEGAL, "a preference and no block: decide and go on"))
    return tuple(faults)


def refuse_illegal(blocked: Blocked) -> None:
    """Refuse an illegal question.

    Raises:
        MalformedError: has every fault that ``check`` finds (``blocked_illegal``).
    """
    faults = check(blocked)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=ILLEGAL)
