"""The egress log of a prepared environment, as part of what a run's commands were shown."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from gatewright.contracts.inventory import PullFacts
from gatewright.egress.record import parse_egress_log
from gatewright.environment_inventory.trees import MOST_METADATA
from gatewright.sandbox.environments import EGRESS_LOG

#: Name of a log among the artifacts of the role that ran the commands.
ARTIFACT: Final = "egress_log"


def pull_facts(log: bytes, head: str = "") -> PullFacts:
    """Return the figures of a log. ``head``: the digest of its last line; empty: unknown. Raises VerificationError."""
    records = parse_egress_log(log, head)
    return PullFacts(
        requests=len(records),
        refused=sum(each.decision == "refused" for each in records),
        bytes=sum(each.bytes for each in records),
        log_sha256=hashlib.sha256(log).hexdigest(),
    )


def read_log(prefix: Path) -> bytes:
    """Return the egress log of a prepared environment, as foreign content. Raises OSError."""
    with os.fdopen(os.open(prefix / EGRESS_LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(MOST_METADATA)
