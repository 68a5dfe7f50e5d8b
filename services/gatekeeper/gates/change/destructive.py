"""Destructive operations: each must be ordered, with the output of a dry run and the location of a backup.

An operation is destructive when its wrong result cannot be repaired from what is left: a command of that class, or a change
that loses many files or whole directories. The order states the operation (``scope.destructive`` and its statements) before
anything runs. Afterwards the gate compares the statement with the actual losses.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from gatewright import scope as paths
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import LARGEST_DIRECTORY, MOST_LOST, DestructiveStatement, Scope
from gatewright.errors import CommandRefusedError, ScopeError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, EMPTY_BLOBS, REGULAR
from gatewright.rules.gate_evidence import FILES_LOST
from gatewright.sandbox.argv import parse_command
from gatewright.services.gatekeeper.gates.change.remains import destroyed_files, moved_files
from gatewright.services.gatekeeper.gates.commands.classes import Classify, classify
from gatewright.services.gatekeeper.gates.commands.gate import too_much
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.worker_role import ways

UNSTATED = "destructive_unstated"
EXCEEDED = "blast_radius_exceeded"
DESTRUCTIVE = "destructive"

_RULE = "destructive_operations"
_NOTHING = hashlib.sha256(b"").hexdigest()


def by_allowlist(policies: Policies) -> Classify:
    """Return a classifier of commands: every matching prefix rule of the operator's allowlist, and the command's own words."""

    def classes(argv: tuple[str, ...]) -> frozenset[str]:
        listed = (rule.kind for rule in policies.allowlist.commands if argv[: len(rule.prefix)] == rule.prefix)
        return frozenset({*listed, *classify(argv)})

    return classes


def judge_destructive(context: GateContext, contract: TaskContract, classify: Classify) -> None:
    """Check that the contract states everything destructive that it orders.

    1. Each destructive command is listed verbatim.
    2. Each listed operation has one statement, and each statement a listed operation.
    3. The dry run is a non-empty input.
    4. The blast radius is inside the contract's paths.
    5. The backup has a name.
    """
    report = context.report
    report.checked(_RULE)
    scope = contract.scope or Scope()
    listed = set(scope.destructive)
    for command in () if too_much(_commands(contract)) is not None else _commands(contract):  # else the command gate refuses
        if DESTRUCTIVE in _classes(command, classify) and command not in listed:  # 1
            report.violate(UNSTATED, _RULE, f"{command!r} is destructive and not listed in scope.destructive")
    stated = Counter(statement.operation for statement in scope.destructive_statements)
    for operation in sorted(listed | stated.keys()):
        if operation not in listed or stated[operation] != 1:  # 2
            words = f"{operation!r} needs to be listed in scope.destructive, and exactly one statement"
            report.violate(UNSTATED, _RULE, words)
    allowed = paths.AllowedPaths(contract.allowed_paths)
    digests = defaultdict(list)
    for artifact in contract.inputs.artifacts:
        digests[artifact.name].append(artifact.sha256.lower())
    for statement in scope.destructive_statements:
        for fault in _statement_faults(statement, allowed, digests.get(statement.dry_run, ())):
            report.violate(UNSTATED, _RULE, f"{statement.operation!r}: {fault}")
        report.saw(f"destructive {statement.operation}", f"dry run {statement.dry_run}, backup {statement.backup}")


async def judge_losses(context: ChangeContext, changes: Sequence[TreeChange], tree: str) -> None:
    """Compare the actual losses of the change to ``tree`` with the statements.

    Content that continues under another path is moved, not lost.

    1. A stated blast radius loses no more than stated.
    2. Outside of it, few files are lost.
    3. No whole directory is lost.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, mirror = context.report, context.mirror
    statements = (context.contract.scope or Scope()).destructive_statements
    radius = [path for statement in statements for path in statement.blast_radius.paths]
    few = len(changes) <= LARGEST_DIRECTORY and not statements
    destroyed = frozenset[bytes]() if few else await destroyed_files(changes, mirror)
    lost = list(lost_files(changes, destroyed))
    if not few:
        moved = await moved_files(lost, changes, mirror)
        lost = [path for path in lost if path not in moved]
    outside = paths.outside(radius, lost)
    elsewhere = set(outside)
    inside = [path for path in lost if path not in elsewhere]
    report.checked(_RULE)
    report.saw(FILES_LOST, str(len(lost)))
    limit = sum(statement.blast_radius.max_deletions for statement in statements)
    if len(inside) > limit:  # 1
        report.violate(EXCEEDED, _RULE, f"{len(inside)} files are lost where {limit} were stated", inside[0])
    if len(outside) > MOST_LOST:  # 2
        report.violate(UNSTATED, _RULE, f"{len(outside)} files are lost without a statement in the contract", outside[0])
    for directory, count in await _directories_gone(outside, frozenset(lost), tree, mirror):  # 3
        report.violate(UNSTATED, _RULE, f"a whole directory of {count} files is lost without a statement", directory)


def lost_files(changes: Sequence[TreeChange], destroyed: frozenset[bytes] = frozenset()) -> Iterator[bytes]:
    """Yield paths whose content is gone (deleted, emptied, of another kind or ``destroyed``) and not moved elsewhere."""
    kept = {change.new_id for change in changes if change.new_mode in REGULAR and change.new_id not in EMPTY_BLOBS}
    for change in changes:
        had_content = change.old_mode != ABSENT and change.old_id not in EMPTY_BLOBS
        gone = change.new_mode not in REGULAR or change.new_id in EMPTY_BLOBS or change.path in destroyed
        if had_content and gone and change.old_id not in kept and change.old_id != change.new_id:
            yield change.path


async def _directories_gone(
    lost: Sequence[bytes], all_lost: frozenset[bytes], tree: str, mirror: Mirror
) -> list[tuple[bytes, int]]:
    """Return the topmost directories that held more than a few of ``lost`` and that ``tree`` no longer has."""
    counts: Counter[bytes] = Counter()
    for path in lost:
        parts = path.split(b"/")
        counts.update(b"/".join(parts[:depth]) for depth in range(1, len(parts)))
    gone: list[tuple[bytes, int]] = []
    for directory, count in sorted(counts.items()):
        if count <= LARGEST_DIRECTORY or any(directory.startswith(above + b"/") for above, _ in gone):
            continue
        entries = await mirror.files(tree, (directory.decode("utf-8", "surrogateescape"),))
        if all(entry.size == 0 or entry.path in all_lost for entry in entries):
            gone.append((directory, count))
    return gone


def _commands(contract: TaskContract) -> Iterator[str]:
    yield from (command for executor in ways(contract) for command in executor.commands)
    yield from (test.cmd for test in contract.acceptance_tests)


def _classes(command: str, classify: Classify) -> frozenset[str]:
    try:
        return frozenset(classify(parse_command(command)))
    except CommandRefusedError:
        return frozenset()  # the command gate refuses it


def _statement_faults(statement: DestructiveStatement, allowed: paths.AllowedPaths, captured: Sequence[str]) -> Iterator[str]:
    """Yield the faults of a statement. ``captured``: digests of the inputs with the dry run's name."""
    if len(captured) != 1 or captured[0] == _NOTHING:  # 3
        yield f"the dry run {statement.dry_run!r} is not one input artifact with content"
    for path in statement.blast_radius.paths:  # 4
        try:
            clean = paths.check_allowed_path(path)
        except ScopeError as error:
            yield error.message
            continue
        if not allowed.cover(clean.encode("utf-8", "surrogatepass")):
            yield f"{clean} is outside the contract's own paths"
    if not statement.blast_radius.summary.strip() or "\n" in statement.blast_radius.summary:
        yield "the blast radius is to be stated in one line"
    if not statement.backup.strip():  # 5
        yield "no backup is named"
