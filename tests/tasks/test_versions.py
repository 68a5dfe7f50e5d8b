"""Two versions side by side: what a role cannot read since another version wrote it is given back, and is no dead letter."""

from __future__ import annotations

import msgspec
import pytest

from gatewright.bus.versions import OTHER_VERSION
from gatewright.contracts import codec
from gatewright.errors import UnavailableError
from gatewright.tasks.disposition import disposition
from gatewright.version import __version__
from tests.factories import make_contract
from tests.tasks.role_at_work import Handler, RoleAtWork

NEXT = {"Gw-Version": "99.0.0"}


def of_the_next_version() -> bytes:
    """A contract with an optional field that this version does not know."""
    return msgspec.json.encode({**msgspec.json.decode(codec.encode(make_contract())), "added_later": True})


@pytest.mark.parametrize(
    ("data", "schema"), [(of_the_next_version(), "task_contract.v1"), (codec.encode(make_contract()), "task_contract.v2")]
)
async def test_a_task_of_another_version_that_cannot_be_read_is_given_back(role: RoleAtWork, data: bytes, schema: str) -> None:
    handler = Handler()
    async with role.working(handler):
        await role.give_bytes(data, schema=schema, **NEXT)
        await role.give(make_contract())
        await role.result()
    assert await role.dead() == []
    assert len(handler.seen) == 1
    assert len([message async for message in role.bus.unsettled("gw.task.>")]) == 1


async def test_a_task_of_another_version_that_can_be_read_is_done(role: RoleAtWork) -> None:
    async with role.working(Handler()):
        await role.give(make_contract(), **NEXT)
        await role.result()
    assert await role.dead() == []


@pytest.mark.parametrize("headers", [{}, {"Gw-Version": __version__}])
async def test_an_unknown_field_of_the_same_version_is_refused_at_once(role: RoleAtWork, headers: dict[str, str]) -> None:
    async with role.working(Handler()):
        await role.give_bytes(of_the_next_version(), **headers)
        await role.error()
        await role.queue_empties()
    (letter,) = await role.dead()
    assert letter.data == of_the_next_version()


async def test_an_answer_names_its_senders_version(role: RoleAtWork) -> None:
    async with role.working(Handler()):
        await role.give(make_contract(), **NEXT)
        await role.result()
    (answer,) = await role.stored("gw.result.worker")
    assert answer.headers["Gw-Version"] == __version__


def test_a_task_of_another_version_is_retried_for_a_minute() -> None:
    error = UnavailableError("later", code=OTHER_VERSION)
    tries = [disposition(error, attempt, 6) for attempt in range(1, 6)]
    assert [each.action for each in tries] == ["retry"] * 4 + ["refuse"]
    assert sum(each.delay for each in tries) >= 60
