"""Limits of a policy pack on the run's time and on each command: the highest values, and those of an order that names none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts import RunRequest, codec
from gatewright.contracts.vocabulary import Budget, CommandLimits
from gatewright.resources import policy_directory, schema_directory
from gatewright.services.gatekeeper.policies.packs import PackLimits
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import MakeRepository

MIB = 1 << 20
LIMITS = {"wall_sec": 600, "cpu_sec": 60, "memory_bytes": 512 * MIB, "processes": 64}


def policies_with(folder: Path, **limits: object) -> Path:
    shutil.copytree(policy_directory(), folder)
    packs: dict[str, Any] = json.loads((folder / "policy_packs.json").read_text())
    packs["low"]["limits"] = limits
    (folder / "policy_packs.json").write_text(json.dumps(packs))
    return folder


async def refusals(gatekeeper: Gatekeeper, **changes: object) -> list[tuple[str, str]]:
    run = await gatekeeper.submit(contract_on(gatekeeper.repository, **changes))
    (report,) = await gatekeeper.reports("policy")
    assert bool(report.violations) == (run.status == "FAILED") == (not run.tasks)
    return [(each.code, each.detail) for each in report.violations]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": Budget(wall_sec=601)}, "budget.wall_sec is 601; at most 600 is allowed"),
        ({"limits": CommandLimits(cpu_sec=60.5)}, "limits.cpu_sec is 60.5; at most 60 is allowed"),
        ({"limits": CommandLimits(memory_bytes=1 << 30)}, "limits.memory_bytes is 1,073,741,824; at most 536,870,912"),
        ({"limits": CommandLimits(processes=65)}, "limits.processes is 65; at most 64 is allowed"),
    ],
    ids=["time", "processor", "memory", "processes"],
)
async def test_an_order_above_a_limit_is_refused_with_the_highest_value(
    changes: dict[str, object], words: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with open_gatekeeper(make_repository(), tmp_path, policies=policies_with(tmp_path / "p", **LIMITS)) as gatekeeper:
        ((code, detail),) = await refusals(gatekeeper, **changes)
        assert (code, words in detail) == ("limit_too_high", True)


async def test_an_order_without_limits_gets_those_of_its_pack(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gatekeeper(make_repository(), tmp_path, policies=policies_with(tmp_path / "p", **LIMITS)) as gatekeeper:
        asked = CommandLimits(processes=16)
        assert not await refusals(gatekeeper, limits=asked, budget=Budget(tokens=5))
        contract = (await gatekeeper.run()).contract
        assert contract is not None
        assert contract.budget == Budget(wall_sec=600, tokens=5)
        assert contract.limits == CommandLimits(cpu_sec=60, memory_bytes=512 * MIB, processes=16)
        run = await gatekeeper.plan()
        (worker,) = run.workers()
        assert worker.contract is not None
        assert worker.contract.limits == contract.limits


async def test_the_delivered_packs_limit_nothing(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gatekeeper(make_repository(), tmp_path) as gatekeeper:
        assert not await refusals(gatekeeper, budget=Budget(wall_sec=1e9), limits=CommandLimits(processes=1 << 20))


@pytest.mark.parametrize("task_type", ["PLAN", "REVIEW", "SEARCH"])
def test_a_run_without_commands_gets_no_limits_of_commands(task_type: str) -> None:
    example = schema_directory() / "examples" / "run_request.v1" / "valid" / "minimal.json"
    request = replace(codec.decode(example.read_bytes(), RunRequest), task_type=task_type)
    found = PackLimits.model_validate(LIMITS).complete(request)
    assert (found.limits, found.budget) == (None, Budget(wall_sec=600))
    changing = PackLimits.model_validate(LIMITS).complete(replace(request, task_type="IMPLEMENT"))
    assert changing.limits == CommandLimits(cpu_sec=60, memory_bytes=512 * MIB, processes=64)
