"""A role whose host has no room, or whose bus takes nothing: the task is held and done again, it is never failed for it."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import PublishAck
from gatewright.contracts import ReviewReport, TestReport, codec
from gatewright.errors import BusError, HostError, MalformedError
from gatewright.resources import schema_directory
from gatewright.tasks import disposition, runner
from gatewright.tasks.protocol import has_failed, lacked_room
from tests.factories import make_contract
from tests.tasks.role_at_work import QUICK, Handler, RoleAtWork, do_nothing, make_result
from tests.waiting import PATIENCE

#: More than a queue would deliver, and a role would try.
OFTEN = 12
FULL = HostError("0 MiB are free", code="disk_full")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disposition, "LONGEST_WAIT", 0.01)


@pytest.fixture
def role() -> RoleAtWork:
    return RoleAtWork()


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        BusError("no answer in time", code="bus_no_answer"),
        BusError("insufficient resources", code="bus_storage_full"),
    ],
    ids=["room", "ENOSPC", "EDQUOT", "silent bus", "full bus"],
)
async def test_a_task_waits_for_a_full_disk_without_being_returned(role: RoleAtWork, error: Exception) -> None:
    left = OFTEN

    async def work(task: Any, context: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            raise error
        return await do_nothing(task, context)

    handler = Handler(work)
    async with role.working(handler):
        await role.give(make_contract())
        assert (await role.result()) == make_result(make_contract())
    assert {attempts for _, attempts in handler.seen} == {1}
    assert len(handler.seen) == OFTEN
    assert await role.dead() == []


async def test_no_task_is_begun_without_room(role: RoleAtWork) -> None:
    looks = 0

    def room() -> None:
        nonlocal looks
        looks += 1
        if looks < OFTEN:
            raise FULL

    handler = Handler()
    async with role.working(handler, dataclasses.replace(QUICK, room=room)):
        await role.give(make_contract())
        await role.result()
    assert len(handler.seen) == 1


async def test_a_failure_is_not_believed_where_there_is_no_room(role: RoleAtWork) -> None:
    """A command that could not write fails in its own words."""
    full = True

    async def work(task: Any, _context: Any) -> Any:
        return make_result(task, status="FAILED" if full else "SUCCESS", failure="executor_failed: exit 1" if full else None)

    looks = iter([False, True, True, False])  # before the first try, after it, before the second, before the third

    def room() -> None:
        nonlocal full
        if next(looks):
            raise FULL
        full = len(handler.seen) == 0

    handler = Handler(work)
    async with role.working(handler, dataclasses.replace(QUICK, room=room)):
        await role.give(make_contract())
        assert (await role.result()) == make_result(make_contract())
    assert len(handler.seen) == 2


def test_a_full_disk_may_explain_a_refusing_review() -> None:
    """Without disk space git reports a correct patch as one that does not apply."""
    example = schema_directory() / "examples" / "review_report.v1" / "valid"
    reports = [codec.decode(path.read_bytes(), ReviewReport) for path in sorted(example.iterdir())]
    assert {report.verdict for report in reports} >= {"PASS", "BLOCKED"}
    assert [has_failed(report) for report in reports] == [report.verdict != "PASS" for report in reports]


async def test_a_command_ended_by_a_full_disk_is_retried_once(role: RoleAtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has space again at the check, and nothing shows who filled it."""
    monkeypatch.setattr(runner, "lacked_room", has_failed)

    async def work(task: Any, _context: Any) -> Any:
        return make_result(task, status="FAILED", failure="executor_failed: exit 1")

    handler = Handler(work)
    async with role.working(handler):
        await role.give(make_contract())
        assert has_failed(await role.result())
    assert len(handler.seen) == 2


@pytest.mark.parametrize(("status", "failed"), [("PASS", False), ("SKIPPED", False), ("FAIL", True), ("ERROR", True)])
def test_a_report_of_failed_tests_is_a_failure(status: str, failed: bool) -> None:
    example = schema_directory() / "examples" / "test_report.v1" / "valid" / "full.json"
    report = msgspec.structs.replace(codec.decode(example.read_bytes(), TestReport), status=status)
    assert has_failed(report) is failed
    stopped = tuple(msgspec.structs.replace(command, stopped="disk") for command in report.commands)
    assert lacked_room(msgspec.structs.replace(report, commands=stopped))
    assert not lacked_room(msgspec.structs.replace(report, commands=()))


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EIO, "disk_failed"), (errno.EACCES, "permission_denied"), (errno.EMFILE, "too_many_open_files")]
)
async def test_what_else_the_host_refuses_ends_the_task_under_its_own_code(role: RoleAtWork, number: int, code: str) -> None:
    async def work(_task: Any, _context: Any) -> Any:
        raise OSError(number, os.strerror(number))

    role = RoleAtWork(max_deliver=2)
    async with role.working(Handler(work)):
        await role.give(make_contract())
        assert (await role.error()).code == code


async def test_a_document_that_is_nested_too_deeply_is_refused_and_no_crash(role: RoleAtWork) -> None:
    async def work(_task: Any, _context: Any) -> Any:
        raise RecursionError

    async with role.working(Handler(work)):
        await role.give(make_contract())
        assert (await role.error()).code == "nested_too_deeply"


class FullBus(MemoryBus):
    """Takes no answer for a while."""

    refusals = OFTEN

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        message_id: str,
        expected_subject_sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PublishAck:
        if subject.startswith("gw.result.") and self.refusals:
            self.refusals -= 1
            raise BusError("insufficient resources", code="bus_storage_full")
        return await super().publish(
            subject,
            data,
            schema=schema,
            message_id=message_id,
            expected_subject_sequence=expected_subject_sequence,
            headers=headers,
        )


async def test_an_answer_waits_for_a_full_bus_without_repeating_work(role: RoleAtWork) -> None:
    handler = Handler()
    async with role.working(handler, dataclasses.replace(QUICK, patience=0.0), FullBus(role.server)):
        await role.give(make_contract())
        await role.result()
    assert len(handler.seen) == 1


async def test_a_role_that_waits_for_capacity_leaves_on_request(role: RoleAtWork) -> None:
    def room() -> None:
        raise FULL

    handler = Handler()
    async with role.working(handler, dataclasses.replace(QUICK, room=room, drain=0.05)):
        await role.give(make_contract())
        async with asyncio.timeout(PATIENCE):
            while "task_waits" not in role.events():
                await role.server.wait(0.01)
    assert handler.seen == []
    assert await role.results() == []


async def test_a_final_error_is_not_waited_for(role: RoleAtWork) -> None:
    async def work(_task: Any, _context: Any) -> Any:
        raise MalformedError("no", code="reply_not_usable")

    async with role.working(Handler(work)):
        await role.give(make_contract())
        assert (await role.error()).code == "reply_not_usable"
