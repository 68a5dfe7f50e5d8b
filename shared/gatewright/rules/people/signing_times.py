"""When a person says that they signed something: not before they were asked, and not after now. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from gatewright.errors import DeniedError

#: How far the clock of a person, or of a role's host, may differ from the gatekeeper's.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)
#: The reason code of a time outside of these bounds.
WRONG: Final = "signing_time_wrong"


def check_signing_time(text: str, since: str | None, now: datetime) -> datetime:
    """The moment that ``text`` names, when it lies between ``since`` (None: any time) and ``now``, give or take the tolerance.

    ``since`` is RFC 3339, as the ledger has it. Raises DeniedError (``signing_time_wrong``), also for a time without a zone.
    """
    said = read_time(text)
    if said is None:
        raise DeniedError(f"{text[:40]!a} is no time with a zone", code=WRONG)
    if said > now + CLOCK_TOLERANCE:
        raise DeniedError(f"{text} has not come yet: the clock of who signed is ahead", code=WRONG)
    if since is not None and said < datetime.fromisoformat(since) - CLOCK_TOLERANCE:
        raise DeniedError(f"{text} is before {since}, when it was asked: the clock of who signed is behind", code=WRONG)
    return said


def read_time(text: str) -> datetime | None:
    """A time with a zone; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
