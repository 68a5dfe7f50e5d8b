"""Groups of paths as shard contracts, and the order in which they are given out (specification 7, S1). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gatewright.contracts import Plan, TaskContract
from gatewright.contracts.vocabulary import Agent
from gatewright.rules.shards import shard_of
from gatewright.services.techlead.partition import Group

#: With this many shards or more, one can be broad.
_ENOUGH_TO_COMPARE = 3


def make_plan(task: TaskContract, groups: Sequence[Group], producer: Agent, created_at: str) -> Plan:
    """The plan of ``task`` with one shard for each group, ids ``<task_id>.w01`` and on."""
    contracts = tuple(_shard(task, number, group, producer) for number, group in enumerate(groups, start=1))
    ids = [contract.task_id for contract in contracts]
    return Plan(
        run_id=task.log_refs.run_id,
        task_id=task.task_id,
        producer=producer,
        created_at=created_at,
        contracts=contracts,
        batches=_batches(ids, groups),
    )


def _shard(task: TaskContract, number: int, group: Group, producer: Agent) -> TaskContract:
    """A part of the contract that ``task`` is about. What workers may have is what was requested there."""
    contract = replace(
        task, task_id=task.parent_task_id or task.task_id, tool_permissions=task.requested_permissions or task.tool_permissions
    )
    return shard_of(contract, f"{task.task_id}.w{number:02}", group.paths, producer)


def _batches(ids: Sequence[str], groups: Sequence[Group]) -> tuple[tuple[str, ...], ...]:
    """Narrow shards together, then each broad one alone, then the terminal one alone.

    Broad: called so, or more than half of all files, although there are three shards or more. (Equal parts have none.)
    """
    total = sum(group.size for group in groups)
    narrow: list[str] = []
    alone: list[tuple[str, ...]] = []
    for task_id, group in zip(ids, groups, strict=True):
        broad = group.broad or (len(groups) >= _ENOUGH_TO_COMPARE and group.size * 2 > total)
        if (broad or group.terminal) and len(groups) > 1:
            alone.append((task_id,))
        else:
            narrow.append(task_id)
    return ((tuple(narrow),) if narrow else ()) + tuple(alone)
