"""A change that switches off the tools that would judge it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from tests.attacks.real_gate import RealGate, evidence, open_gate
from tests.git.repositories import MakeRepository

RULE = "added_suppressions"
FILES = {"src/a.py": b"A = 1\nB = eval('2')  # noqa: S307\n", "src/b.py": b"C = 3\n"}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path) as opened:
        yield opened


async def remarks(gate: RealGate, files: dict[str, bytes | None]) -> list[tuple[str | None, int | None, str]]:
    report = await judged(gate, files)
    return [(each.path, each.line, each.message) for each in report.remarks if each.rule == RULE]


async def judged(gate: RealGate, files: dict[str, bytes | None]) -> GateReport:
    result = await gate.worked(gate.patch(files))
    report = await gate.diff(result)
    assert report.verdict == "PASS", report.summary
    return await gate.integrated(result, evidence(report)["candidate_tree"])


async def test_change_that_switches_the_linter_off_is_remarked(gate: RealGate) -> None:
    found = await remarks(gate, {"src/a.py": b"# ruff: noqa\n" + FILES["src/a.py"], "src/b.py": b"C = eval('3')  # nosec\n"})
    assert found == [
        ("src/a.py", 1, "Adds `# ruff: noqa`, which silences ruff in the whole file."),
        ("src/b.py", 1, "Adds `# nosec`, which silences bandit on this line."),
    ]


async def test_suppression_that_moves_to_another_file_is_not_remarked(gate: RealGate) -> None:
    assert await remarks(gate, {"src/a.py": b"A = 1\n", "src/c.py": b"\nB = eval('2')  # noqa: S307\n"}) == []


async def test_flood_of_suppressions_is_counted(gate: RealGate) -> None:
    found = await remarks(gate, {"src/b.py": b"C = 3  # noqa\n" * 300})
    assert len(found) == 41
    assert found[-1][2] == "The change adds 300 suppressions in 1 files; 260 of them are not listed."


async def test_control_characters_of_a_suppression_are_not_shown(gate: RealGate) -> None:
    ((_, _, message),) = await remarks(gate, {"src/b.py": b"C = 3  # noqa: \x1b[31m\xe2\x80\xaered\n"})
    assert message.isprintable()
