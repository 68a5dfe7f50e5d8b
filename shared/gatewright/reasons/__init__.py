"""The reason codes of Gatewright: one table of code, family, exit code, advice and place in the documentation.

Pure data at the bottom of the house: it imports nothing of Gatewright, and every floor above looks things up here.
"""

from gatewright.reasons.reason import EXIT_CODES, FAMILIES, Family, Reason
from gatewright.reasons.registry import REASONS, advice_for, exit_code_of, family_of, offers_for, passes
from gatewright.reasons.retries import RetryOffer

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
