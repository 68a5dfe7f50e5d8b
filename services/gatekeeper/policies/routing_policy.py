"""The operator's rules of how much a change risks (``routing_rules.json``). Without the file no run is routed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from gatewright.contracts import RoutingRules, codec
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.git.paths import path_fault
from gatewright.policy_files import policy_path, read_policy

ROUTING_FILE = "routing_rules.json"
#: Reasons to ask a person that rest on the routing.
_RESTS_ON_ROUTING = frozenset({"risk_tier", "critic"})


def load_routing(folder: Path, asking: Iterable[ApprovalRule]) -> tuple[RoutingRules | None, str | None]:
    """The rules and the digest of their file; None and None where there is none.

    Raises ConfigurationError: the file cannot be read, its limits or patterns say nothing, or a rule of approvals (``asking``)
    rests on it and it is not there.
    """
    path = policy_path(folder, ROUTING_FILE)
    if not path.exists():
        for rule in asking:
            if rule.reason in _RESTS_ON_ROUTING:
                words = f"the rule {rule.name} asks by {rule.reason}, which needs {ROUTING_FILE} in the policy folder"
                raise ConfigurationError(words)
        return None, None
    data = read_policy(path)
    try:
        rules = codec.decode(data, RoutingRules)
    except MalformedError as error:
        raise ConfigurationError(f"{path}: {error.message}") from error
    _check(path, rules)
    return rules, hashlib.sha256(data).hexdigest()


def _check(path: Path, rules: RoutingRules) -> None:
    if rules.low_files > rules.high_files or rules.low_lines > rules.high_lines:
        raise ConfigurationError(f"{path}: what is still of low risk may not be more than what is not of high risk")
    for pattern in (*rules.low_paths, *rules.high_paths):
        name = pattern.removeprefix("*") if pattern.startswith("*") else pattern.removesuffix("/")
        if not pattern.startswith("*") and path_fault(name.encode()) is not None:
            raise ConfigurationError(f"{path}: {pattern!r} can be no path of a repository")
