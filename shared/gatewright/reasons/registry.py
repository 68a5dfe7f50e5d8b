"""Look-ups in the one table of reason codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatewright.reasons.bad_input import BAD_INPUT
from gatewright.reasons.failed import FAILED
from gatewright.reasons.infrastructure import INFRASTRUCTURE
from gatewright.reasons.reason import EXIT_CODES, NOTHING, Family, Reason, RetryOffer
from gatewright.reasons.refused import REFUSED

#: Every reason of Gatewright, by its code.
REASONS: Final[Mapping[str, Reason]] = {reason.code: reason for reason in (*BAD_INPUT, *REFUSED, *FAILED, *INFRASTRUCTURE)}
#: Family of a code that is not in the table and came without one: a refusal.
UNKNOWN: Final[Family] = "refused"


def family_of(code: str, given: Family | None = None) -> Family:
    """Return the family of a reason: ``given``, which came with it, else that of the table, else ``refused``."""
    if given is not None:
        return given
    return REASONS[code].family if code in REASONS else UNKNOWN


def exit_code_of(family: Family) -> int:
    """Return the exit code of a command that ends with a reason of ``family``."""
    return EXIT_CODES[family]


def advice_for(code: str, run: str = "RUN") -> str | None:
    """Return advice about a reason, in one sentence; None for an unknown code. ``run``: id of its run."""
    return REASONS[code].advice.replace("{run}", run) if code in REASONS else None


def passes(code: str) -> bool:
    """Return whether a submission with this reason may be sent again unchanged.

    This is so if the condition ends by itself, or after an operator has acted.
    """
    return code in REASONS and REASONS[code].passing


def offers_for(code: str) -> frozenset[RetryOffer]:
    """Return what a retry line may add after a refusal with ``code``; nothing for an unknown code."""
    return REASONS[code].retry if code in REASONS else NOTHING
