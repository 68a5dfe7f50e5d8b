"""What a retry line may add to a command after a refusal. The rule is written here once; every client uses it.

A retry line is printed (``retry with: gatewright run ...``) or returned (``retry_with``), and people paste it without a second
look. It therefore follows these rules:

1. Each reason code says in its own table what it offers. A code that is not in a table offers nothing.
2. A refusal for evasion offers nothing: tests that are lost or weakened, a patched runner, a report that is cut short. The
   option that would open it would let the same change land.
3. A text that could not be read offers nothing: no path of a malformed patch is opened.
4. One violation that offers nothing leaves the whole line out, because the run would be refused again.
5. A path is offered by its exact name, never by its folder. Caches, sacred paths and names that a person cannot read are
   never offered (``gatewright.view.retry``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RetryOffer(StrEnum):
    """Something that a retry line may add; the value is the option of ``gatewright run``."""

    PATH = "--allow"
    PROTECTED_PATH = "--allow-tests"
    DEPENDENCIES = "--allow-dependencies"
    KIND = "--allow-kind"
    LAND_BRANCH = "--land"
    PROVIDE = "--provide"
    TEST = "--test"
    #: Whatever a model proposed for a request that left something open.
    PROPOSAL = "the proposed options"


#: What most reasons offer.
NOTHING: Final[frozenset[RetryOffer]] = frozenset()
