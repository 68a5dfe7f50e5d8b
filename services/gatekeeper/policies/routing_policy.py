"""The operator's risk rules for changes (``routing_rules.json``). Without the file no run is routed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gatewright.contracts import RoutingRules, codec
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.errors import ConfigurationError
from gatewright.git.paths import path_fault
from gatewright.policy_files import PolicyFile

ROUTING_FILE = PolicyFile("routing_rules.json", RoutingRules, decode=codec.decode)
#: Approval reasons that depend on routing.
_RESTS_ON_ROUTING = frozenset({"risk_tier", "critic"})


def check_routing(path: Path, rules: RoutingRules | None, asking: Iterable[ApprovalRule]) -> None:
    """Check the routing rules and the approval rules that depend on them.

    Args:
        path: file of the routing rules.
        rules: the routing rules, if there are any.
        asking: the approval rules.

    Raises:
        ConfigurationError: the rules have no limits or patterns, or an approval rule depends on missing routing rules.
    """
    if rules is None:
        for rule in asking:
            if rule.reason in _RESTS_ON_ROUTING:
                words = f"the rule {rule.name} asks by {rule.reason}, which needs {ROUTING_FILE} in the policy folder"
                raise ConfigurationError(words)
        return
    if rules.low_files > rules.high_files or rules.low_lines > rules.high_lines:
        raise ConfigurationError(f"{path}: what is still of low risk may not be more than what is not of high risk")
    for pattern in (*rules.low_paths, *rules.high_paths):
        name = pattern.removeprefix("*") if pattern.startswith("*") else pattern.removesuffix("/")
        if not pattern.startswith("*") and path_fault(name.encode()) is not None:
            raise ConfigurationError(f"{path}: {pattern!r} can be no path of a repository")
