"""Plans: what a plan may do with a contract, which is to split its paths and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import ScopeError
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.broken import Broken
from gatewright.worker_role import REQUIRED_OUTPUTS, WORKER, least_permissions, resolve_role

#: Reason code: candidates together with a split.
PARTS_OF_CANDIDATES = "candidates_in_parts"
_PERMISSIONS = frozenset({"tool_permissions", "requested_permissions"})
SHARD = re.compile(r"w[0-9]{2,3}")  # noqa: TID251 - linear: of a fixed length


def plan_task_id(run_id: str) -> str:
    return f"{run_id}.plan"


def attempt_id(task_id: str, attempt: int) -> str:
    """Return the id of a shard in an attempt: the first keeps the plan's id, later ones end with ``.a<attempt>``."""
    return task_id if attempt == 1 else f"{task_id}.a{attempt}"


def shard_of(contract: TaskContract, task_id: str, paths: tuple[str, ...], producer: Agent) -> TaskContract:
    """Return the worker's task for ``paths``, a part of ``contract``, ordered by ``producer``.

    All fixed fields of the contract stay. Ids, paths, agents, permissions and required outputs are the shard's own.
    """
    shard = replace(
        visible(contract),
        task_id=task_id,
        parent_task_id=contract.task_id,
        task_type="IMPLEMENT",
        owner_agent=producer,
        assigned_agent=WORKER,
        required_outputs=REQUIRED_OUTPUTS,
        allowed_paths=paths,
        tool_permissions=least_permissions(contract),
        requested_permissions=None,
        sharding=None,
        transfer=None,
        questions=None,
        operator_words=(),
    )
    return replace(shard, role_contract=resolve_role(shard))


def broken_by_shard(shard: TaskContract, contract: TaskContract, allowed: scope.AllowedPaths, run_id: str) -> Iterator[Broken]:
    """Check a shard.

    1. Its id belongs to the run.
    2. It equals the contract except in ``shard_of``'s own fields, with a worker's permissions.
    3. Its paths are inside ``allowed``, the contract's paths.
    """
    prefix = plan_task_id(run_id) + "."
    name = shard.task_id.removeprefix(prefix)
    if name == shard.task_id or not SHARD.fullmatch(name):  # 1
        yield Broken("plan_invalid", "task_id", f"{shard.task_id!r} is not a shard of this plan")
    yield from _check_unchanged(shard, contract)  # 2
    yield from _outside(shard, allowed)  # 3
    if len(set(shard.allowed_paths)) != len(shard.allowed_paths) and shard.allowed_paths != contract.allowed_paths:
        yield Broken("plan_invalid", "allowed_paths", f"{shard.task_id} names a path twice")


def broken_by_candidates(plan: Plan, contract: TaskContract) -> Iterator[Broken]:
    """Yield a fault for candidates with a plan of several parts: each candidate makes the whole change."""
    if contract.candidates and len(plan.contracts) != 1:
        yield Broken(PARTS_OF_CANDIDATES, "candidates", f"{len(plan.contracts)} parts, and candidates are each of the whole")


def broken_by_count(plan: Plan, contract: TaskContract) -> Iterator[Broken]:
    """Yield a fault for more parts than the contract allows."""
    most = contract.sharding.count if contract.sharding is not None else 1
    if len(plan.contracts) > most:
        yield Broken("plan_invalid", "sharding", f"{len(plan.contracts)} parts, and the contract allows {most}")


def broken_by_split(plan: Plan) -> Iterator[Broken]:
    """Check the split.

    1. Each id occurs once.
    2. No path is in two shards.
    3. Batches contain every shard exactly once.
    """
    ids = [shard.task_id for shard in plan.contracts]
    if len(set(ids)) != len(ids):  # 1
        yield Broken("plan_invalid", "task_id", "two shards have the same id")
    if not scope.disjoint([shard.allowed_paths for shard in plan.contracts]):  # 2
        yield Broken("plan_invalid", "disjoint", "two shards may write the same path")
    if sorted(task_id for batch in plan.batches for task_id in batch) != sorted(ids):  # 3
        yield Broken("plan_invalid", "batches", "the batches do not hold every shard exactly once")


def _check_unchanged(shard: TaskContract, contract: TaskContract) -> Iterator[Broken]:
    """Yield differences between ``shard`` and what ``shard_of`` makes of the contract."""
    expected = shard_of(contract, shard.task_id, shard.allowed_paths, shard.owner_agent)
    expected = replace(expected, role_contract=resolve_role(shard))
    other = {name for name in TaskContract.__struct_fields__ if getattr(shard, name) != getattr(expected, name)}
    if other & _PERMISSIONS:
        yield Broken("permission_too_wide", "least_privilege", f"{shard.task_id} asks for more than a worker gets")
    if others := sorted(other - _PERMISSIONS):
        yield Broken("plan_invalid", "contract", f"{shard.task_id} changes more than its paths: {', '.join(others)}")


def _outside(shard: TaskContract, allowed: scope.AllowedPaths) -> Iterator[Broken]:
    for path in shard.allowed_paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            yield Broken("plan_invalid", "allowed_paths", error.message)
            continue
        if not allowed.cover(clean.encode()):
            yield Broken("plan_invalid", "allowed_paths", "outside the contract", clean.encode())
