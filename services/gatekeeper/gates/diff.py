"""The diff gate: what changed between two trees in the gatekeeper's own mirror, against what the contract allows.

Only objects are looked at: no working tree, no word of the worker (specification 8, mechanism 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import ChangeKind, Scope
from gatewright.git.changes import Change
from gatewright.git.paths import path_fault
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import PathClass, Policies

EXECUTABLE = "100755"
REGULAR = frozenset({"100644", EXECUTABLE})
SYMLINK = "120000"
SUBMODULE = "160000"
KNOWN = REGULAR | {SYMLINK, SUBMODULE}
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
        _mode(change, opened, found)
        kind = policies.path_class(change.path)
        if kind is not None:
            _class(change, kind, opened, found)


def _mode(change: Change, opened: Scope, found: Judgement) -> None:
    """Each kind of change has its own rule; the contract opens it by naming the kind in ``scope.allow``."""
    modes = {change.old_mode, change.new_mode} - {ABSENT}
    if not modes <= KNOWN:
        found.violate("special_file", RULE, f"unknown mode {change.new_mode}", change.path)
    for kind, code, words in _kinds(change, modes):
        if kind not in opened.allow:
            found.violate(code, RULE, f"{words}; opened only by scope.allow: {kind}", change.path)


def _kinds(change: Change, modes: set[str]) -> Iterator[tuple[ChangeKind, str, str]]:
    """The kinds that a change is of, with the reason code and words of their rules."""
    if SUBMODULE in modes:
        yield "submodule", "submodule_refused", "a submodule"
    if SYMLINK in modes:
        yield "symlink", "symlink_refused", "a symbolic link"
    if change.new_mode == EXECUTABLE != change.old_mode:
        yield "executable", "executable_refused", "becomes executable"
    elif change.old_mode == EXECUTABLE and change.new_mode in REGULAR - {EXECUTABLE}:
        yield "mode_change", "mode_change_refused", "is executable no more"
    name = change.path.rpartition(b"/")[2].lower()
    if name == b".gitattributes":
        yield "gitattributes", "path_protected", "changes how git reads files"
    if name == b".gitmodules":
        yield "gitmodules", "path_protected", "names other repositories"


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
