"""What runs beside a test command ends with it; and tests that are skipped now, or may go because the contract says so."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Scope
from gatewright.sandbox import Additions, Completed, Sandbox, SandboxLimits, SandboxReport, make_sandbox
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.port import SOURCE_DATE_EPOCH, WorkingFolder
from gatewright.services.testrunner.handler import TestRunnerHandler
from gatewright.workspace import Workspaces
from tests.ecosystems.suites import PYTEST, Suite, codes, proof_of
from tests.waiting import PATIENCE

HANGS = b"import time\n\ntime.sleep(3600)\n"
#: The candidate's, which hangs where tests were planted.
HANGS_IN_THE_CONTROL = b"import os, time\n\nif len(os.listdir('tests')) > 1:\n    time.sleep(3600)\n"
FAILS = b"def test_a():\n    assert False\n"


class Marked:
    """Finds the processes of one command by a word in it."""

    def __init__(self) -> None:
        self.word = f"mark-{uuid.uuid4().hex}"
        self.command = f"{PYTEST} --junit-prefix={self.word}"

    def alive(self) -> list[int]:
        """The interpreters of the command, in whatever sandbox."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = place.read_bytes().split(b"\0")
                if words[0] == b"python" and any(self.word.encode() in word for word in words):
                    found.append(int(place.parent.name))
        return found

    async def wait_for(self, number: int) -> None:
        give_up = time.monotonic() + PATIENCE
        while len(self.alive()) < number:
            if time.monotonic() > give_up:
                pytest.fail(f"{len(self.alive())} of {number} processes")
            await asyncio.sleep(0.02)


class Watched:
    """A real sandbox; what ends in it first is told only when three others run."""

    def __init__(self, sandbox: Sandbox, marked: Marked) -> None:
        self._sandbox = sandbox
        self._marked = marked
        self._first = True
        self.name = sandbox.name

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: WorkingFolder,
        prefix: Shown,
        limits: SandboxLimits,
        source_date_epoch: int = SOURCE_DATE_EPOCH,
        additions: Additions | None = None,
    ) -> Completed:
        completed = await self._sandbox.run(
            argv,
            workspace=workspace,
            prefix=prefix,
            limits=limits,
            source_date_epoch=source_date_epoch,
            additions=additions,
        )
        if self._first:
            self._first = False
            await self._marked.wait_for(3)
        return completed

    async def probe(self) -> SandboxReport:
        return await self._sandbox.probe()


def watched(folder: Path, marked: Marked) -> Suite:
    suite = Suite(folder, {"conftest.py": HANGS, "tests/test_a.py": FAILS})
    sandbox = Watched(make_sandbox("bubblewrap"), marked)
    workspaces = Workspaces.for_sandbox(suite.fixture.state / "workspaces", sandbox)
    suite.runner = TestRunnerHandler("testrunner-1", suite.fixture.mirrors, workspaces, sandbox, (suite.prefix,))
    return suite


def left_behind(suite: Suite) -> list[Path]:
    return list((suite.fixture.state / "workspaces").glob("*/tasks/*"))


@pytest.mark.long
async def test_control_and_baseline_end_with_a_command_that_fails(tmp_path: Path) -> None:
    marked = Marked()
    suite = watched(tmp_path, marked)
    report = await suite.tested({"conftest.py": HANGS_IN_THE_CONTROL}, marked.command)
    assert (report.status, report.commands[0].exit_code) == ("FAIL", 1)
    assert marked.alive() == []
    assert left_behind(suite) == []
    proof = proof_of(report)
    assert (proof.control, proof.collected_before, proof.baseline_tests) == (None, None, None)


async def test_nothing_outlives_a_run_that_is_aborted(tmp_path: Path) -> None:
    marked = Marked()
    suite = watched(tmp_path, marked)
    task = asyncio.create_task(suite.tested({"conftest.py": HANGS + b"# still\n"}, marked.command))
    await marked.wait_for(4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marked.alive() == []
    assert left_behind(suite) == []


RAN = (
    b"import pytest\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    pass\n\n\n@pytest.mark.skip\ndef test_c():\n    pass\n"
)
SKIPS_ONE_MORE = RAN.replace(b"def test_b", b"@pytest.mark.skip\ndef test_b")


@pytest.mark.long
async def test_a_baseline_test_that_is_now_skipped_is_lost(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"tests/test_a.py": RAN})
    report = await suite.tested({"tests/test_a.py": SKIPS_ONE_MORE})
    assert report.status == "PASS"
    assert proof_of(report).newly_skipped == ("tests/test_a.py::test_b",)
    assert codes(suite.judged(report)) == ["tests_lost"]
    # What was found out about the baseline is remembered, and leads to the same.
    assert proof_of(await suite.tested({"tests/test_a.py": SKIPS_ONE_MORE})).newly_skipped == ("tests/test_a.py::test_b",)


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param((SKIPS_ONE_MORE, None), id="skipped, deleted"),
        pytest.param((RAN.replace(b"test_b", b"check_b"), b"def test_d():\n    pass\n"), id="renamed", marks=pytest.mark.long),
    ],
)
async def test_a_file_that_the_contract_opens_may_lose_its_tests(tmp_path: Path, contents: tuple[bytes | None, ...]) -> None:
    suite = Suite(tmp_path, {"tests/test_a.py": RAN, "tests/test_k.py": b"def test_k():\n    pass\n"})
    for content in contents:
        report = await suite.tested({"tests/test_a.py": content})
        assert (report.status, codes(suite.judged(report))) == ("PASS", ["tests_lost"])
        contract = suite.contract
        assert contract is not None
        # What the contract opens is the judges' affair alone: the same report, under others.
        suite.contract = replace(contract, scope=Scope(allow_protected_paths=("tests/test_a.py",)))
        assert suite.judged(report) == ()
        suite.contract = replace(contract, scope=Scope(allow_protected_paths=("tests/test_k.py",)))
        assert codes(suite.judged(report)) == ["tests_lost"]
