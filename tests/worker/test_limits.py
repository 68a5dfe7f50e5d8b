"""The operator's limits hold for an executor's command, and the report names them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Executor
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
