"""The operator's limits hold for an executor's command, and the report names them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import CommandLimits, Executor
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture

WRITES = b"open('big', 'wb').write(b'x' * (3 << 20))\n"


async def test_an_oversized_file_ends_the_task_and_reports_the_limit(fixture: HandlerFixture) -> None:
    fixture.baseline = fixture.repository.commit({"tools/write.py": WRITES})
    contract = fixture.contract(executor=Executor(kind="command", commands=("python3 tools/write.py",)), allowed_paths=("big",))
    roomy = make_handler(Settings(home=fixture.state))
    narrow = make_handler(Settings(home=fixture.state, limit_file_bytes=1 << 20))
    assert (await roomy.handle(contract, fixture.context())).status == "SUCCESS"
    refused = await narrow.handle(contract, fixture.context())
    assert refused.status == "FAILED"
    assert b'"limit of file":"1048576"' in codec.encode(refused)


@pytest.mark.parametrize("wrong", [{"limit_memory_bytes": 1}, {"limit_output_bytes": 1 << 40}, {"limit_processes": 0}])
def test_limits_under_which_nothing_works_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Settings.model_validate(wrong)


BUSY = b"while True: pass\n"
LARGE = b"x = bytearray(300 << 20)\nopen('big', 'wb').write(b'x')\n"
FORKS = b"import os, time\nfor _ in range(40):\n    os.fork() or time.sleep(9) or os._exit(0)\nopen('big', 'wb').write(b'x')\n"


@pytest.mark.parametrize(
    ("script", "limits", "fact"),
    [
        (BUSY, CommandLimits(cpu_sec=1), b'"limit of cpu":"1"'),
        (LARGE, CommandLimits(memory_bytes=128 << 20), b'"limit of memory":"134217728"'),
        (FORKS, CommandLimits(processes=16), b'"limit of processes":"16"'),
    ],
    ids=["processor", "memory", "processes"],
)
async def test_limits_of_the_contract_end_a_command_and_are_reported(
    script: bytes, limits: CommandLimits, fact: bytes, fixture: HandlerFixture
) -> None:
    fixture.baseline = fixture.repository.commit({"tools/use.py": script})
    contract = fixture.contract(
        executor=Executor(kind="command", commands=("python3 tools/use.py",)), allowed_paths=("big",), limits=limits
    )
    result = await make_handler(Settings(home=fixture.state)).handle(contract, fixture.context())
    assert result.status == "FAILED"
    assert fact in codec.encode(result)


async def test_a_contract_raises_no_limit_of_the_process(fixture: HandlerFixture) -> None:
    fixture.baseline = fixture.repository.commit({"tools/use.py": LARGE})
    contract = fixture.contract(
        executor=Executor(kind="command", commands=("python3 tools/use.py",)),
        allowed_paths=("big",),
        limits=CommandLimits(memory_bytes=1 << 40),
    )
    handler = make_handler(Settings(home=fixture.state, limit_memory_bytes=128 << 20))
    assert (await handler.handle(contract, fixture.context())).status == "FAILED"
