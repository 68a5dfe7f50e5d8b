"""Plans: what a shard keeps of its contract, what is its own, and what runs together."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Plan, TaskContract, codec
from gatewright.contracts.vocabulary import Agent, Executor, Scope, Sharding
from gatewright.errors import MalformedError, ScopeError
from gatewright.services.techlead.handler import Settings, make_handler
from gatewright.services.techlead.partition import Group
from gatewright.services.techlead.plan import make_plan
from tests.handler_fixture import HandlerFixture, make_handler_fixture

LEAD = Agent(role="TECH_LEAD", agent_id="techlead-1")
FILES = {f"pkg{n}/m{m}.py": b"x\n" for n in range(4) for m in range(3)}
COMMAND = Executor(kind="command", commands=("python codemod.py {paths}",))


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    return make_handler_fixture(tmp_path, FILES)


def planning(fixture: HandlerFixture, **changes: object) -> TaskContract:
    """The task as the gatekeeper gives it: the run's contract, re-assigned."""
    task = fixture.contract(task_type="PLAN", task_id="run-0123456789.plan", parent_task_id="run-0123456789.contract")
    return replace(task, allowed_paths=("pkg0", "pkg1", "pkg2", "pkg3"), executor=COMMAND, **changes)


async def planned(fixture: HandlerFixture, task: TaskContract) -> Plan:
    plan = await make_handler(Settings(home=fixture.state)).handle(task, fixture.context())
    return codec.decode(codec.encode(plan), Plan)


async def test_a_contract_is_split_into_disjoint_shards_that_run_together(fixture: HandlerFixture) -> None:
    plan = await planned(fixture, planning(fixture, sharding=Sharding(count=4)))
    assert [shard.allowed_paths for shard in plan.contracts] == [("pkg0",), ("pkg1",), ("pkg2",), ("pkg3",)]
    ids = tuple(f"run-0123456789.plan.w0{number}" for number in range(1, 5))
    assert tuple(shard.task_id for shard in plan.contracts) == ids
    assert plan.batches == (ids,)
    assert scope.disjoint([shard.allowed_paths for shard in plan.contracts])
    assert (plan.run_id, plan.task_id, plan.producer) == ("run-0123456789", "run-0123456789.plan", LEAD)


async def test_a_shard_keeps_all_that_the_contract_fixed(fixture: HandlerFixture) -> None:
    task = planning(fixture, sharding=Sharding(count=2), scope=Scope(allow_protected_paths=("pkg0/tests",)))
    plan = await planned(fixture, task)
    for shard in plan.contracts:
        own = {
            *("task_id", "task_type", "parent_task_id", "owner_agent", "assigned_agent", "allowed_paths"),
            *("tool_permissions", "role_contract", "required_outputs", "sharding"),
        }
        for name in set(TaskContract.__struct_fields__) - own:
            assert getattr(shard, name) == getattr(task, name), name
        assert (shard.task_type, shard.parent_task_id) == ("IMPLEMENT", "run-0123456789.contract")
        assert (shard.assigned_agent.role, shard.assigned_agent.agent_id) == ("WORKER", "worker-1")
        assert shard.sharding is None


async def test_a_shard_gets_the_worker_s_privilege_and_never_more(fixture: HandlerFixture) -> None:
    for given, expected in (("never", "never"), ("deny", "deny"), ("on-request", "never")):
        task = planning(fixture)
        wide = replace(task.tool_permissions, shell=given, network="allow", mcp_tools=("everything",))
        (shard,) = (await planned(fixture, replace(task, tool_permissions=wide))).contracts
        asked = shard.tool_permissions
        assert (asked.filesystem, asked.shell, asked.network, asked.mcp_tools) == ("workspace-write", expected, "deny", ())
        assert shard.role_contract is not None
        assert shard.role_contract.tool_permissions.shell == expected


async def test_a_shard_has_the_tools_of_its_contract(fixture: HandlerFixture) -> None:
    task = planning(fixture)
    permissions = replace(task.tool_permissions, mcp_tools=("docs.search", "docs.other"))
    task = replace(task, mcp_tool_set=(*task.mcp_tool_set, "docs.search"), tool_permissions=permissions)
    (shard,) = (await planned(fixture, task)).contracts
    assert shard.tool_permissions.mcp_tools == ("docs.search",)


async def test_an_order_without_a_maker_is_split_for_its_plan(fixture: HandlerFixture) -> None:
    task = replace(planning(fixture), sharding=Sharding(count=4), executor=None)
    assert len((await planned(fixture, task)).contracts) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sharding": Sharding(count=1)},
        {"sharding": Sharding(count=4), "executor": Executor(kind="patch", artifacts=("p",))},
        {"sharding": Sharding(count=4), "executor": Executor(kind="reply", artifacts=("r",))},
        {"sharding": Sharding(count=4), "executor": None, "candidates": (Executor(kind="agent"), Executor(kind="agent"))},
    ],
)
async def test_what_is_one_whole_passes_through_without_looking_at_the_repository(
    fixture: HandlerFixture, changes: dict[str, object]
) -> None:
    task = replace(planning(fixture), **changes)
    plan = await planned(fixture, task)
    assert [shard.allowed_paths for shard in plan.contracts] == [task.allowed_paths]
    assert not (fixture.state / "techlead").exists()


async def test_a_command_that_accepts_no_paths_is_not_split(fixture: HandlerFixture) -> None:
    both = Executor(kind="command", commands=("python codemod.py {paths}", "python codemod.py ."))
    with pytest.raises(MalformedError, match="cannot be split") as refused:
        await planned(fixture, replace(planning(fixture, sharding=Sharding(count=2)), executor=both))
    assert refused.value.reason == "plan_invalid"


async def test_a_path_that_no_contract_may_name_is_never_planned(fixture: HandlerFixture) -> None:
    with pytest.raises(ScopeError):
        await planned(fixture, replace(planning(fixture), allowed_paths=("../outside",)))


def batches(fixture: HandlerFixture, *groups: Group) -> list[list[int]]:
    plan = make_plan(planning(fixture), groups, LEAD, "2026-01-02T03:04:05.000Z")
    return [[int(task_id.rpartition("w")[2]) for task_id in batch] for batch in plan.batches]


def test_broad_shards_run_alone_and_terminal_ones_last(fixture: HandlerFixture) -> None:
    small, broad = Group(("a",), 10), Group(("b",), 25)
    terminal = Group(("go.mod",), 1, terminal=True)
    assert batches(fixture, small, small, broad, terminal) == [[1, 2], [3], [4]]
    assert batches(fixture, small, broad) == [[1, 2]]
    assert batches(fixture, small, terminal) == [[1], [2]]
    assert batches(fixture, terminal) == [[1]]
    assert batches(fixture, small, small, small, small) == [[1, 2, 3, 4]]


def test_every_shard_is_in_exactly_one_batch(fixture: HandlerFixture) -> None:
    groups = [Group((f"d{n}",), n) for n in range(12)]
    plan = make_plan(planning(fixture), groups, LEAD, "2026-01-02T03:04:05.000Z")
    assert sorted(task_id for batch in plan.batches for task_id in batch) == [shard.task_id for shard in plan.contracts]
