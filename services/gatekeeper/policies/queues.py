"""The operator's settings of merge queues (``queues.json``). Without the file every branch may have a queue, with defaults."""

from __future__ import annotations

import hashlib
from typing import Final

from gatewright.contracts import QueueRules, codec
from gatewright.contracts.queue_policy import QueuePolicy, QueueRule
from gatewright.git.access.repository_patterns import EVERYTHING, covers_address, ref_covered
from gatewright.policy_files import PolicyFile

_EVERY_BRANCH: Final = QueueRules(version="1", queues=(QueueRule(repositories=(EVERYTHING,), branches=("refs/heads/*",)),))
QUEUES_FILE: Final = PolicyFile("queues.json", QueueRules, decode=codec.decode, default=lambda: _EVERY_BRANCH)


def queue_policy(rules: QueueRules, url: str, ref: str) -> QueuePolicy | None:
    """Return the settings of the queue of a branch; None where it has none."""
    found = (rule.policy for rule in rules.queues if ref_covered(ref, rule.branches) and covers_address(url, rule.repositories))
    return next(found, None)


def queue_policy_sha256(policy: QueuePolicy) -> str:
    """Return the digest of the settings, as queues, receipts and reports name them."""
    return hashlib.sha256(codec.encode(policy)).hexdigest()
