"""What a plan may do with a contract: split its paths, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.errors import ScopeError
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.broken import Broken
from gatewright.worker_role import least_permissions

#: Candidates were asked for together with a split.
PARTS_OF_CANDIDATES = "candidates_in_parts"
SHARD = re.compile(r"w[0-9]{2,3}")  # noqa: TID251 - linear: of a fixed length


def plan_task_id(run_id: str) -> str:
    return f"{run_id}.plan"


def attempt_id(task_id: str, attempt: int) -> str:
    """The id that a shard has in an attempt: the first keeps the plan's, later ones end in ``.a<attempt>``."""
    return task_id if attempt == 1 else f"{task_id}.a{attempt}"


def broken_by_shard(shard: TaskContract, contract: TaskContract, allowed: scope.AllowedPaths, run_id: str) -> Iterator[Broken]:
    """``allowed``: the contract's paths.

    1. its id is the run's own  2. nothing but paths and ids differs, permissions are a worker's  3. inside the contract.
    """
    prefix = plan_task_id(run_id) + "."
    name = shard.task_id.removeprefix(prefix)
    if name == shard.task_id or not SHARD.fullmatch(name):  # 1
        yield Broken("plan_invalid", "task_id", f"{shard.task_id!r} is not a shard of this plan")
    yield from _changed(shard, contract)  # 2
    yield from _outside(shard, allowed)  # 3


def broken_by_candidates(plan: Plan, contract: TaskContract) -> Iterator[Broken]:
    """Several candidates are of one whole change: a plan of several parts has none."""
    if contract.candidates and len(plan.contracts) != 1:
        yield Broken(PARTS_OF_CANDIDATES, "candidates", f"{len(plan.contracts)} parts, and candidates are each of the whole")


def broken_by_split(plan: Plan) -> Iterator[Broken]:
    """1. every id once  2. no path in two shards  3. batches that hold every shard exactly once."""
    ids = [shard.task_id for shard in plan.contracts]
    if len(set(ids)) != len(ids):  # 1
        yield Broken("plan_invalid", "task_id", "two shards have the same id")
    if not scope.disjoint([shard.allowed_paths for shard in plan.contracts]):  # 2
        yield Broken("plan_invalid", "disjoint", "two shards may write the same path")
    if sorted(task_id for batch in plan.batches for task_id in batch) != sorted(ids):  # 3
        yield Broken("plan_invalid", "batches", "the batches do not hold every shard exactly once")


def _changed(shard: TaskContract, contract: TaskContract) -> Iterator[Broken]:
    """Everything but the shard's own fields must be the contract's, as far as a tech lead sees it; permissions the worker's."""
    contract = visible(contract)
    aligned = replace(
        shard,
        task_id=contract.task_id,
        task_type=contract.task_type,
        parent_task_id=contract.parent_task_id,
        owner_agent=contract.owner_agent,
        assigned_agent=contract.assigned_agent,
        allowed_paths=contract.allowed_paths,
        tool_permissions=contract.tool_permissions,
        requested_permissions=contract.requested_permissions,
        role_contract=contract.role_contract,
        required_outputs=contract.required_outputs,
        sharding=contract.sharding,
    )
    if aligned != contract or shard.task_type != "IMPLEMENT" or shard.parent_task_id != contract.task_id:
        yield Broken("plan_invalid", "contract", f"{shard.task_id} changes more than its paths")
    least = least_permissions(contract.tool_permissions, interactive=contract.interactive)
    if shard.tool_permissions != least or shard.requested_permissions is not None:
        yield Broken("permission_too_wide", "least_privilege", f"{shard.task_id} asks for more than a worker gets")


def _outside(shard: TaskContract, allowed: scope.AllowedPaths) -> Iterator[Broken]:
    for path in shard.allowed_paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            yield Broken("plan_invalid", "allowed_paths", error.message)
            continue
        if not allowed.cover(clean.encode()):
            yield Broken("plan_invalid", "allowed_paths", "outside the contract", clean.encode())
