"""Files that were large before: what a change adds counts, and not what was there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Scope
from gatewright.services.gatekeeper.gates.change import candidate
from tests.attacks.real_gate import RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

MiB = 1 << 20
#: More than one file may grow, and, twice, more than a diff may have.
LOCK = b"".join(b"package %07d = 1.0.0\n" % number for number in range(220_000))
ROWS = b"".join(b"%07d;some value\n" % number for number in range(100_000))
FILES = {"src/uv.lock": LOCK, "src/rows.csv": ROWS, "src/small.txt": b"x\n", "src/raw.bin": bytes(range(256)) * 8000}

#: Files that the change leaves (None: it takes them away), and what the gate says.
CHANGES: dict[str, tuple[Mapping[str, bytes | None], list[str]]] = {
    "one line of a lock file": ({"src/uv.lock": LOCK.replace(b"0000007 = 1.0.0", b"0000007 = 1.0.1")}, []),
    "a row less": ({"src/rows.csv": ROWS.replace(b"0000007;some value\n", b"")}, []),
    "all rows but one": ({"src/rows.csv": b"0000007;some value\n"}, []),
    "rows more, less than the limit": ({"src/rows.csv": ROWS + ROWS[: MiB - 100]}, []),
    "rows more, beyond the limit": ({"src/rows.csv": ROWS + ROWS[: MiB + 100]}, ["file_too_large"]),
    "a small file that becomes large": ({"src/small.txt": b"x\n" * MiB}, ["file_too_large"]),
    "a new large file": ({"src/new.lock": ROWS + b"\n"}, ["file_too_large"]),
    "a copy of a large file": ({"src/copy.csv": ROWS}, ["file_too_large"]),
    "a moved file": ({"src/rows.csv": None, "src/data/other.csv": ROWS}, []),
    "a moved file of megabytes": ({"src/uv.lock": None, "src/app/uv.lock": LOCK}, []),
    "a moved and edited file": ({"src/rows.csv": None, "src/data/rows.csv": ROWS + b"more;1\n"}, []),
    "a moved file, twice": (
        {"src/rows.csv": None, "src/data/rows.csv": ROWS, "src/data/again.csv": ROWS},
        ["file_too_large"],
    ),
    "another large file in the place of one": ({"src/rows.csv": None, "src/other.csv": ROWS[::-1]}, ["file_too_large"]),
    "a deleted file of megabytes": ({"src/uv.lock": None}, []),
    "a large binary file that changes": ({"src/raw.bin": bytes(range(255)) * 8000}, ["binary_refused"]),
}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    scope = Scope(allow_dependency_change=True)
    async with open_gate(make_repository(files=FILES), tmp_path, scope=scope) as opened:
        yield opened


async def judged(gate: RealGate, patch: bytes) -> GateReport:
    result = await gate.worked(patch)
    report = await gate.diff(result)
    return await gate.integrated(result, evidence(report)["candidate_tree"]) if report.verdict == "PASS" else report


@pytest.mark.parametrize("what", CHANGES)
async def test_what_a_change_adds_to_a_large_file_counts(what: str, gate: RealGate) -> None:
    files, expected = CHANGES[what]
    report = await judged(gate, gate.patch(files))
    assert codes(report) == expected, report.summary


async def test_patch_of_new_content_is_too_large_whatever_it_removes(gate: RealGate) -> None:
    files = {f"src/new{number}.txt": ROWS[: MiB - number] for number in range(9)}
    report = await judged(gate, gate.patch({"src/uv.lock": None, **files}))
    assert codes(report) == ["diff_too_large"]


async def test_large_change_is_read_in_portions(gate: RealGate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content that was not read could be binary."""
    monkeypatch.setattr(candidate, "READ_AT_ONCE", 3 * MiB)
    files = {"src/uv.lock": LOCK + b"one\n", "src/rows.csv": ROWS + b"two\n", "src/raw.bin": bytes(8 * 256 * 1000) + b"1"}
    assert codes(await judged(gate, gate.patch(files))) == ["binary_refused"]
