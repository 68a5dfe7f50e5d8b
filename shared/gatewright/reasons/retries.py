"""The options that a retry line may add to a command after a refusal. This is the only definition, used by every client.

A retry line is printed (``retry with: gatewright run ...``) or returned (``retry_with``), and people paste it without checking
it. It therefore follows these rules:

1. The table of a reason code defines what it offers. A code that is not in a table offers nothing.
2. A refusal for evasion offers nothing: tests that are lost or weakened, a patched runner, a report that is cut short. The
   option that would permit it would let the same change land.
3. An unreadable text offers nothing: no path of a malformed patch is allowed.
4. One violation that offers nothing leaves the whole line out, because the run would be refused again.
5. A path is offered by its exact name, never by its folder. Caches, sacred paths and names that a person cannot read are never
   offered (``gatewright.view.retry``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RetryOffer(StrEnum):
    """An addition of a retry line; the value is the option of ``gatewright run``."""

    PATH = "--allow"
    PROTECTED_PATH = "--allow-tests"
    DEPENDENCIES = "--allow-dependencies"
    KIND = "--allow-kind"
    LAND_BRANCH = "--land"
    AGAIN = "--again"
    PROVIDE = "--provide"
    TEST = "--test"
    #: All options that a model proposed for an incomplete request.
    PROPOSAL = "the proposed options"


#: The offer of most reasons.
NOTHING: Final[frozenset[RetryOffer]] = frozenset()
