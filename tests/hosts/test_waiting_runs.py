"""What waits for people is found however many newer runs there are."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.access import HostAccess
from gatewright.app.cli.hosts.server import ApprovalTools, NextActionTools
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.bus.memory.bus import MemoryBus
from gatewright.client import Client
from tests.attacks.people import LANDING, open_inbox
from tests.client.conftest import write_run
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository
from tests.view.ledgers import make_run

NEWER = 60


@dataclass(frozen=True, slots=True)
class OverMemory(HostAccess):
    """A host on a bus in memory."""

    bus: MemoryBus | None = None

    @contextlib.asynccontextmanager
    async def runs(self) -> AsyncIterator[LedgerSource]:
        assert self.bus is not None
        yield LedgerSource(Client(self.bus))


@pytest.fixture
async def waiting(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[tuple[OverMemory, str]]:
    """A host, and the run that waits for a person behind more ended runs than an answer may hold."""
    repository = make_repository("project", files={"src/a.py": b"one = 1\n"})
    async with open_inbox(repository, tmp_path, LANDING, clock=HandClock()) as inbox:
        await inbox.to_the_candidate()
        asked = await inbox.asked()
        for number in range(NEWER):
            await write_run(inbox.gatekeeper.bus, make_run(number))
        access = OverMemory(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), bus=inbox.gatekeeper.bus)
        yield access, asked.run_id


async def test_a_request_behind_many_newer_runs_is_listed(waiting: tuple[OverMemory, str]) -> None:
    access, run_id = waiting
    found = (await ApprovalTools(access).list_approvals()).structured_content
    assert found is not None
    assert [each["run_id"] for each in found["waiting"]] == [run_id]
    assert found["total"] == 1


async def test_an_action_behind_many_newer_runs_comes_first(waiting: tuple[OverMemory, str]) -> None:
    access, run_id = waiting
    found = (await NextActionTools(access).next_actions()).structured_content
    assert found is not None
    assert (found["actions"][0]["kind"], found["actions"][0]["run_id"]) == ("approval", run_id)
