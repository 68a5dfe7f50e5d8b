"""The diff gate: compares two trees in the gatekeeper's own mirror with what the contract allows.

The gate reads only git objects, never a working tree or a worker's report (specification 8, mechanism 1). It judges each
changed path separately. ``path_collisions.py`` compares paths of a tree with each other; ``links.py`` resolves links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatewright import scope
from gatewright.contracts.vocabulary import ChangeKind, Scope
from gatewright.ecosystems.caches import is_cache
from gatewright.git.changes import TreeChange
from gatewright.git.modes import ABSENT, ENTRIES, EXECUTABLE, FILE, SUBMODULE, SYMLINK
from gatewright.git.paths import is_gitattributes, is_gitmodules, path_fault
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import PathClass

SCOPE_RULE = "allowed_paths"
NAMES_RULE = "git_paths"
MODES_RULE = "file_modes"
#: Reason for refusing a change of CI files, and how to request approval for it.
UNASKED = (
    "CI files change only with a person's approval, and no approval rule about this repository names the class ci; "
    'have the operator add one to approval_rules.json ("reason": "protected_class", "classes": ["ci"]), '
    "or run it at a terminal on a stack of your own"
)
LIMIT_RULE = "protected_paths.limits"
#: Kinds of change with a rule of their own, in report order.
KINDS: tuple[ChangeKind, ...] = ("submodule", "symlink", "executable", "mode_change", "gitattributes", "gitmodules")


def kind_rule(kind: ChangeKind) -> str:
    """Return the name of the rule on a kind of change."""
    return f"change_kinds.{kind}"


def judge_number(context: GateContext, changes: Sequence[TreeChange]) -> bool:
    """Judge the number of changed paths. Return False when it is too large to judge anything else."""
    report = context.report
    limit = context.policies.protected.limits.max_changed_files
    report.checked(LIMIT_RULE)
    if len(changes) > limit:
        report.violate("diff_too_large", LIMIT_RULE, f"{len(changes)} changed files where {limit} are allowed")
    return len(changes) <= limit


def judge_changes(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Judge every changed path separately. A rename is a deletion and an addition, so both sides are judged."""
    report, contract, policies = context.report, context.contract, context.policies
    opened = contract.scope or Scope()
    report.checked(SCOPE_RULE, ", ".join(contract.allowed_paths))
    report.checked(NAMES_RULE)
    report.checked(MODES_RULE)
    for kind in KINDS:
        report.checked(kind_rule(kind), "opened by scope.allow" if kind in opened.allow else "")
    for path_class in policies.protected.classes:
        asked = f": the rule {context.ci_rule} asks a person" if path_class.opened_by == "approval" and context.ci_rule else ""
        report.checked(f"protected_paths.{path_class.name}", f"opened by {path_class.opened_by}{asked}")
    for path in scope.outside(contract.allowed_paths, (change.path for change in changes)):
        written = "; a tool wrote it: have .gitignore name it" if is_cache(path.decode("utf-8", "replace")) else ""
        report.violate("path_out_of_scope", SCOPE_RULE, f"outside the contract's paths{written}", path)
    opened_paths = scope.AllowedPaths(opened.allow_protected_paths)
    for change in changes:
        fault = path_fault(change.path, change.new_mode)
        if fault is not None:
            report.violate("git_path", NAMES_RULE, fault, change.path)
        _mode(report, change, opened)
        for path_class in policies.path_classes(change.path):
            _class(context, change, path_class, opened, opened_paths)


def _mode(report: GateReportBuilder, change: TreeChange, opened: Scope) -> None:
    """Apply the rule of each kind of change; the contract permits a kind by listing it in ``scope.allow``."""
    modes = {change.old_mode, change.new_mode} - {ABSENT}
    if not modes <= ENTRIES:
        report.violate("special_file", MODES_RULE, f"unknown mode {change.new_mode}", change.path)
    for kind, code, words in _kinds(change, modes):
        if kind not in opened.allow:
            report.violate(code, kind_rule(kind), f"{words}; opened only by scope.allow: {kind}", change.path)


def _kinds(change: TreeChange, modes: set[str]) -> Iterator[tuple[ChangeKind, str, str]]:
    """Yield the kinds of a change, each with the reason code and message of its rule."""
    if SUBMODULE in modes:
        yield "submodule", "submodule_refused", "a submodule"
    if SYMLINK in modes:
        yield "symlink", "symlink_refused", "a symbolic link"
    if change.new_mode == EXECUTABLE != change.old_mode:
        yield "executable", "executable_refused", "becomes executable"
    elif change.old_mode == EXECUTABLE and change.new_mode == FILE:
        yield "mode_change", "mode_change_refused", "is executable no more"
    name = change.path.rpartition(b"/")[2]
    if is_gitattributes(name):
        yield "gitattributes", "path_protected", "changes how git reads files"
    if is_gitmodules(name):
        yield "gitmodules", "path_protected", "names other repositories"


def _class(
    context: ChangeContext, change: TreeChange, kind: PathClass, opened: Scope, opened_paths: scope.AllowedPaths
) -> None:
    report = context.report
    rule = f"protected_paths.{kind.name}"
    match kind.opened_by:
        case "scope.allow_protected_paths" if opened_paths.cover(change.path):
            report.touched(rule, change.path)
            return
        case "scope.allow_protected_paths, by name" if change.path in opened_paths.exact:
            report.touched(rule, change.path)
            return
        case "scope.allow_dependency_change" if opened.allow_dependency_change:
            report.touched(rule, change.path)
            return
        case "append-only" if change.old_mode == ABSENT:
            report.touched(rule, change.path)
            return
        case "approval" if context.ci_rule:
            report.touched(rule, change.path)
            return
        case "approval":
            words = UNASKED
        case "nothing" if context.policies.content_decides(change.path):
            return  # see ``credential_files.py``
        case "nothing":
            words = "no contract opens it"
        case "append-only":
            words = "existing files may not change; new files may be added"
        case field:
            words = f"opened only by {field}"
    report.violate("path_protected", rule, words, change.path)
