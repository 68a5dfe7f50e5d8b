"""Look-ups in the one table of reason codes: what is known of a code stands there, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatewright.reasons.bad_input import BAD_INPUT
from gatewright.reasons.failed import FAILED
from gatewright.reasons.infrastructure import INFRASTRUCTURE
from gatewright.reasons.reason import EXIT_CODES, Family, Reason
from gatewright.reasons.refused import REFUSED
from gatewright.reasons.retries import NOTHING, RetryOffer

#: Every reason that anything in Gatewright gives, by its code.
REASONS: Final[Mapping[str, Reason]] = {reason.code: reason for reason in (*BAD_INPUT, *REFUSED, *FAILED, *INFRASTRUCTURE)}
#: What a code is taken for that is not in the table, and came without a family: it is a no.
UNKNOWN: Final[Family] = "refused"


def family_of(code: str, told: Family | None = None) -> Family:
    """The family of a reason: the one that came with it (``told``), else the table's, else ``refused``."""
    if told is not None:
        return told
    return REASONS[code].family if code in REASONS else UNKNOWN


def exit_code_of(family: Family) -> int:
    """The exit code of a command that ends with a reason of ``family``."""
    return EXIT_CODES[family]


def advice_for(code: str, run: str = "RUN") -> str | None:
    """What to do about a reason, in one sentence; None for a code that is not known here. ``run``: the run it is about."""
    return REASONS[code].advice.replace("{run}", run) if code in REASONS else None


def passes(code: str) -> bool:
    """Whether what met this reason may be sent again as it is: it passes by itself, or once an operator has acted."""
    return code in REASONS and REASONS[code].passing


def offers_for(code: str) -> frozenset[RetryOffer]:
    """What a retry line may add after a refusal with ``code``; nothing for a code that is not known here."""
    return REASONS[code].retry if code in REASONS else NOTHING
