"""The reason codes of Gatewright: one table of code, family, exit code, advice and page of the documentation.

Pure data: this package imports nothing else of Gatewright, and every other package may import it.
"""

from gatewright.reasons.reason import EXIT_CODES, FAMILIES, Family, Reason, RetryOffer
from gatewright.reasons.registry import REASONS, advice_for, exit_code_of, family_of, offers_for, passes

__all__ = [
    "EXIT_CODES",
    "FAMILIES",
    "REASONS",
    "Family",
    "Reason",
    "RetryOffer",
    "advice_for",
    "exit_code_of",
    "family_of",
    "offers_for",
    "passes",
]
