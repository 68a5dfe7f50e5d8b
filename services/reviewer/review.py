"""Runs every check over a candidate. Pure."""

from __future__ import annotations

from itertools import chain, islice

from gatewright.contracts.reports import Finding
from gatewright.services.reviewer.checks import CHECKS
from gatewright.services.reviewer.subject import Subject

#: Findings that a report holds. What blocks comes first, so that the cut never hides a reason to refuse.
MAX_FINDINGS = 500
#: Findings of one check; a hostile patch must not make one of them endless.
_MAX_OF_ONE = 10_000


def review(subject: Subject) -> tuple[Finding, ...]:
    """The findings of all checks, blocking ones first."""
    found = list(chain.from_iterable(islice(check(subject), _MAX_OF_ONE) for check in CHECKS.values()))
    return tuple(sorted(found, key=lambda finding: not finding.blocking)[:MAX_FINDINGS])
