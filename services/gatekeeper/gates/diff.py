"""The diff gate: what changed between two trees in the gatekeeper's own mirror, against what the contract allows.

Only objects are looked at: no working tree, no word of the worker (specification 8, mechanism 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.common import Scope
from gatewright.git.changes import Change
from gatewright.git.paths import path_fault
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import PathClass, Policies

REGULAR = frozenset({"100644", "100755"})
ABSENT = "000000"
RULE = "diff_gate"


def judge_changes(changes: Sequence[Change], contract: TaskContract, policies: Policies, found: Judgement) -> None:
    """Judge every changed path on its own; a rename is a deletion and an addition, so both sides are judged."""
    allowed = contract.allowed_paths
    opened = contract.scope or Scope()
    if len(changes) > policies.protected.limits.max_changed_files:
        found.violate("diff_too_large", RULE, f"{len(changes)} changed files")
        return
    for change in changes:
        if not scope.covers(allowed, change.path):
            found.violate("path_out_of_scope", "allowed_paths", "outside the contract's paths", change.path)
        fault = path_fault(change.path, change.new_mode)
        if fault is not None:
            found.violate("git_path", RULE, fault, change.path)
        _mode(change, found)
        kind = policies.path_class(change.path)
        if kind is not None:
            _class(change, kind, opened, found)


def _mode(change: Change, found: Judgement) -> None:
    modes = {change.old_mode, change.new_mode} - {ABSENT}
    if "160000" in modes:
        found.violate("submodule_refused", RULE, "submodules are not accepted", change.path)
    elif "120000" in modes:
        found.violate("symlink_refused", RULE, "symbolic links are not accepted", change.path)
    elif not modes <= REGULAR:
        found.violate("special_file", RULE, f"unknown mode {change.new_mode}", change.path)
    elif change.new_mode == "100755" and change.old_mode != "100755":
        found.violate("executable_refused", RULE, "no file may become executable", change.path)


def _class(change: Change, kind: PathClass, opened: Scope, found: Judgement) -> None:
    rule = f"protected_paths.{kind.name}"
    match kind.opened_by:
        case "scope.allow_protected_paths" if scope.covers(opened.allow_protected_paths, change.path):
            return
        case "scope.allow_dependency_change" if opened.allow_dependency_change:
            return
        case "append-only" if change.old_mode == ABSENT:
            return
    found.violate("path_protected", rule, f"opened only by {kind.opened_by}", change.path)
