"""Times of signatures: not before the request, and not in the future. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from gatewright.errors import DeniedError

#: Maximum difference between the clock of a person or role host and the gatekeeper's.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)
#: Reason code of a time outside these bounds.
WRONG: Final = "signing_time_wrong"


def check_signing_time(text: str, since: str | None, now: datetime) -> datetime:
    """Return the time ``text`` if it is between ``since`` and ``now``, within the tolerance.

    Args:
        text: RFC 3339.
        since: RFC 3339, as in the ledger; None for no lower bound.
        now: the current time.

    Raises:
        DeniedError: it is outside, or has no zone (``signing_time_wrong``).
    """
    signed_at = require_time(text, WRONG)
    if signed_at > now + CLOCK_TOLERANCE:
        raise DeniedError(f"{text} has not come yet: the clock of who signed is ahead", code=WRONG)
    if since is not None and signed_at < datetime.fromisoformat(since) - CLOCK_TOLERANCE:
        raise DeniedError(f"{text} is before {since}, when it was asked: the clock of who signed is behind", code=WRONG)
    return signed_at


def check_fresh(text: str, now: datetime) -> None:
    """Check that a document was signed just now, within the tolerance.

    Raises:
        DeniedError: ``signing_time_wrong``.
    """
    if check_signing_time(text, None, now) < now - CLOCK_TOLERANCE:
        words = f"it was signed {text}, and its signature applies for {CLOCK_TOLERANCE.seconds // 60} minutes"
        raise DeniedError(words, code=WRONG)


def require_time(text: str, code: str) -> datetime:
    """Parse a time. Raises DeniedError with ``code`` for one without a zone."""
    found = read_time(text)
    if found is None:
        raise DeniedError(f"{text[:40]!a} is no time with a zone", code=code)
    return found


def read_time(text: str) -> datetime | None:
    """Parse a time with a zone; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
