"""The order that reverts a landed run: its patch is the inverse of the landed commit, and an ordinary run judges and lands it.

The patch is computed here, from the repository, and checked against the branch. Nothing is merged: where later commits changed
the same lines, the order is refused, and the refusal names them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gatewright.artifacts import PROVIDED
from gatewright.clock import new_id
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import (
    LARGEST_DIRECTORY,
    AcceptanceTest,
    BlastRadius,
    ChangeKind,
    DestructiveStatement,
    Executor,
    LandingMode,
    Person,
    Repository,
    RevertedRun,
    Scope,
)
from gatewright.errors import Fault, GitError, MalformedError, PatchError, ScopeError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.changes import TreeChange
from gatewright.git.inverse import conflicts, inverse_of
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.modes import ABSENT
from gatewright.git.paths import display
from gatewright.git.refs import check_landing_ref
from gatewright.run.events.judging import Landed
from gatewright.run.state import Run
from gatewright.scope import AllowedPaths, check_allowed_path, covers

_PATCH: Final = EXECUTOR_KINDS["patch"].artifact
#: The files that the revert deletes, as the dry run of its destructive statement.
_DELETIONS: Final = "revert.deletions"
_DELETE: Final = "delete files"
_LONGEST_TITLE: Final = 200
#: Maximum conflicting paths that an error names.
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RevertChoices:
    """What differs from the reverted run. Empty fields are as they were there.

    ``repository``: its present address. ``tests``: acceptance commands; default: those of its contract, without hidden ones.
    ``target_ref``: branch to revert on; default: where the run landed or, for a branch of its own, ``HEAD``.
    """

    requested_by: str = "sdk"
    ordered_by: tuple[str, ...] = ()
    author: Person | None = None
    reason: str = ""
    repository: str | None = None
    landing: LandingMode | None = None
    target_ref: str | None = None
    tests: tuple[str, ...] = ()
    allow_tests: tuple[str, ...] = ()
    allow_kinds: tuple[ChangeKind, ...] = ()
    allow_dependencies: bool = False


async def prepare_revert(
    run: Run, choices: RevertChoices, access: RepositoryAccess = NO_ACCESS
) -> tuple[RunRequest, tuple[tuple[str, bytes], ...]]:
    """Build the request that reverts what ``run`` landed; return it with its attachments, which are not yet stored.

    1. The run landed a commit.
    2. The commit is on the branch.
    3. Its inverse applies there.

    Raises:
        MalformedError: ``nothing_landed``, ``revert_not_on_target``, ``revert_conflict``, ``bad_ref``, ``invalid_input``.
        GitError, DeniedError: the repository cannot be read, the patch is too large, or a changed path cannot be allowed.
    """
    landed, contract = run.landed, run.contract
    if landed is None or not landed.commit or contract is None or contract.repository is None:  # 1
        why = f"ended with {run.failure.code}" if run.failure is not None else "landed no commit" if run.ended else "is open"
        raise MalformedError(f"{run.run_id} {why}: there is nothing to revert", code="nothing_landed")
    given = choices.target_ref
    target = check_landing_ref(given if given.startswith("refs/") else f"refs/heads/{given}") if given else None
    with tempfile.TemporaryDirectory(prefix="gatewright-revert-") as scratch:
        mirror = await Mirrors(Path(scratch), access=access).open(choices.repository or contract.repository.url)
        start, tip = await _branch_with(mirror, run, landed, target)  # 2
        patch, changes = await inverse_of(mirror, landed.commit)
        try:
            await mirror.apply(tip, patch)  # 3
        except PatchError as error:
            found = await conflicts(mirror, landed.commit, tip)
            named = [f"{display(path)} ({', '.join(each[:12] for each in commits)})" for path, commits in found]
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            why = f"later commits changed the same lines of {', '.join(named[:_MOST_NAMED])}{more}" if found else error.message
            words = f"{run.run_id} cannot be reverted on {start}: {why}"
            raise MalformedError(words, code="revert_conflict") from error
    if not changes:
        raise MalformedError(f"the commit of {run.run_id} changes nothing", code="nothing_landed")
    lost = [change.path for change in changes if change.new_mode == ABSENT]
    stated = ((_DELETIONS, b"".join(path + b"\n" for path in lost)),) if len(lost) > LARGEST_DIRECTORY else ()
    lands_on = target or (None if landed.mode == "branch" else landed.ref)
    repository = Repository(url=mirror.url, target_ref=lands_on, landing=choices.landing or landed.mode)
    if repository.moves_target and lands_on is None:
        raise _incomplete("/repository/target_ref", f"--land {repository.landing} needs --target-ref BRANCH")
    title = " ".join(contract.inputs.spec.partition("\n\n")[0].split())[:_LONGEST_TITLE]
    order = RunRequest(
        request=f"Revert: {title}\n\nIt reverts {run.run_id}, which landed commit {landed.commit}.\n\n{choices.reason}".strip(),
        repository=repository,
        requested_by=choices.requested_by,
        ordered_by=choices.ordered_by,
        author=choices.author,
        baseline_ref=start,
        allowed_paths=tuple(dict.fromkeys((*(_allowed_path(each.path, contract) for each in changes), *choices.allow_tests))),
        acceptance_tests=_acceptance(contract, choices.tests),
        executor=Executor(kind="patch", artifacts=(_PATCH,)),
        scope=_scope(run, contract, landed, choices, changes),
        reverts=RevertedRun(run_id=run.run_id, commit=landed.commit),
        idempotency_key=new_id(),
        artifacts=tuple(each for each in contract.inputs.artifacts if each.name.startswith(PROVIDED)),
        environment=contract.environment if run.request is None else run.request.environment,
        language=run.request.language if run.request is not None else None,
        policy_pack=contract.policy_pack or "low",
        priority=contract.priority,
        needs=contract.needs,
        tests="characterisation",  # tests that come back were made for another change
        requirement_ids=contract.requirement_ids,
        timeout_retry=replace(contract.timeout_retry, max_retries=0),
        strict_acceptance=contract.runtime_options is not None and contract.runtime_options.strict_acceptance,
    )
    return order, ((_PATCH, patch), *stated)


async def _branch_with(mirror: Mirror, run: Run, landed: Landed, target: str | None) -> tuple[str, str]:
    """Return the ref to revert on, and its commit. Raises MalformedError (``revert_not_on_target``)."""
    name = target or ("HEAD" if landed.mode == "branch" else landed.ref)
    try:
        tip = await mirror.resolve(name)
        await mirror.ensure(landed.commit)
        if await mirror.descends(tip, landed.commit):
            return name, tip
    except GitError as error:
        if error.reason not in {"ref_not_found", "object_missing"}:
            raise
    words = f"{name} of {mirror.url} does not contain commit {landed.commit} of {run.run_id}"
    raise MalformedError(words, code="revert_not_on_target")


def _acceptance(contract: TaskContract, given: Sequence[str]) -> tuple[AcceptanceTest, ...]:
    named = enumerate(given, start=1)
    tests = tuple(AcceptanceTest(name=f"test-{number}", cmd=command, must_pass=True) for number, command in named)
    tests = tests or tuple(test for test in contract.acceptance_tests if not test.hidden)
    if not tests:
        raise _incomplete("/acceptance_tests", "all tests of the run are hidden: name a command with --test CMD (repeatable)")
    return tests


def _incomplete(pointer: str, words: str) -> MalformedError:
    return MalformedError("this cannot be run", faults=(Fault(pointer, "missing", words),), code="invalid_input")


def _scope(
    run: Run, contract: TaskContract, landed: Landed, choices: RevertChoices, changes: Sequence[TreeChange]
) -> Scope | None:
    """Return what the reverted run was allowed, for its changed paths alone, and what the choices add."""
    old = contract.scope or Scope()
    opened = AllowedPaths(old.allow_protected_paths)
    protected = [_allowed_path(change.path, contract) for change in changes if opened.cover(change.path)]
    lost = tuple(_allowed_path(change.path, contract) for change in changes if change.new_mode == ABSENT)
    scope = Scope(
        allow_dependency_change=old.allow_dependency_change or choices.allow_dependencies,
        allow_protected_paths=tuple(dict.fromkeys((*protected, *choices.allow_tests))),
        allow=tuple(dict.fromkeys((*old.allow, *choices.allow_kinds))),
    )
    if len(lost) > LARGEST_DIRECTORY:
        radius = BlastRadius(summary=f"files that {run.run_id} added", paths=lost, max_deletions=len(lost))
        backup = f"commit {landed.commit}"
        stated = DestructiveStatement(operation=_DELETE, dry_run=_DELETIONS, blast_radius=radius, backup=backup)
        scope = replace(scope, destructive=(_DELETE,), destructive_statements=(stated,))
    return None if scope == Scope() else scope


def _allowed_path(path: bytes, contract: TaskContract) -> str:
    """Return ``path`` as a contract allows it; for a name that it cannot hold, the old contract's path above.

    Raises ScopeError.
    """
    try:
        return check_allowed_path(path.decode("utf-8", "surrogateescape"))
    except ScopeError:
        above = next((each for each in contract.allowed_paths if covers((each,), path)), None)
        if above is None:
            raise
        return above
