"""The operator's settings of merge queues (``queues.json``). Without the file every branch may have a queue, with defaults."""

from __future__ import annotations

import hashlib
from typing import Final

from gatewright.contracts import ApproverRoster, QueueRules, codec
from gatewright.contracts.queue_policy import QueuePolicy, QueueRule
from gatewright.errors import ConfigurationError
from gatewright.git.access.repository_patterns import EVERYTHING, covers_address, ref_covered
from gatewright.policy_files import PolicyFile
from gatewright.rules.gate_evidence import ROSTER
from gatewright.rules.quorum import names_person

_EVERY_BRANCH: Final = QueueRules(version="1", queues=(QueueRule(repositories=(EVERYTHING,), branches=("refs/heads/*",)),))
QUEUES_FILE: Final = PolicyFile("queues.json", QueueRules, decode=codec.decode, default=lambda: _EVERY_BRANCH)


def check_action_signers(place: str, rules: QueueRules, roster: ApproverRoster) -> None:
    """Check that each signer of each queue is a person or a group of the roster.

    Args:
        place: the file, for the message.
        rules: its content.
        roster: the roster.

    Raises:
        ConfigurationError: names the signer.
    """
    for name in (name for rule in rules.queues for name in rule.policy.action_signers):
        if not any(names_person((name,), person) for person in roster.people):
            raise ConfigurationError(f"{place}: action_signers names {name}, and {ROSTER} has no such person or group")


def queue_policy(rules: QueueRules, url: str, ref: str) -> QueuePolicy | None:
    """Return the settings of the queue of a branch; None where it has none."""
    found = (rule.policy for rule in rules.queues if ref_covered(ref, rule.branches) and covers_address(url, rule.repositories))
    return next(found, None)


def queue_policy_sha256(policy: QueuePolicy) -> str:
    """Return the digest of the settings, as queues, receipts and reports name them."""
    return hashlib.sha256(codec.encode(policy)).hexdigest()
