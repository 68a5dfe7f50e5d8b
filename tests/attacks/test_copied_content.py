"""Content of sacred files, and of files outside the contract, that a change takes to other places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Scope
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

ENV = b"MODE=live\nHOST=db.internal\n"
KEY = b"-- not a real key --\n" + bytes(range(128, 256))
OUTSIDE = b"def helper():\n    return 1\n"
FILES = {
    "src/app.py": b"one\n",
    ".env": ENV,
    "deploy/prod.key": KEY,
    "deploy/.env.empty": b"",
    "config/secrets.yaml": b"a: 1\n",
    "config/sample.yaml": b"a: 1\n",
    "lib/helper.py": OUTSIDE,
    "lib/__init__.py": b"",
}
COPY = "diff --git a/{0} b/src/{1}\nsimilarity index 100%\ncopy from {0}\ncopy to src/{1}\n"
EDITED = (
    "diff --git a/.env b/src/settings.txt\nsimilarity index 50%\n{0} from .env\n{0} to src/settings.txt\n"
    "--- a/.env\n+++ b/src/settings.txt\n@@ -1,2 +1,2 @@\n-MODE=live\n+MODE=test\n HOST=db.internal\n"
)


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow=("binary",))) as opened:
        yield opened


async def judged(gate: RealGate, patch: bytes) -> GateReport:
    return await gate.diff(await gate.worked(patch))


@pytest.mark.parametrize("source", [".env", "deploy/prod.key"])
async def test_copy_of_a_sacred_file_by_the_words_of_a_patch(source: str, gate: RealGate) -> None:
    report = await judged(gate, COPY.format(source, "copy.txt").encode())
    assert set(codes(report)) == {"sacred_content"}
    assert [violation.path for violation in report.violations] == ["src/copy.txt"] * len(report.violations)
    assert source in report.summary
    assert retry_options(report) == ()


@pytest.mark.parametrize("how", ["copy", "rename"])
async def test_edited_copy_of_a_sacred_file_by_the_words_of_a_patch(how: str, gate: RealGate) -> None:
    report = await judged(gate, EDITED.format(how).encode())
    assert "sacred_content" in codes(report)
    assert report.verdict == "FAIL"


CHANGED = {
    "as it is": ENV,
    "line ends of Windows": ENV.replace(b"\n", b"\r\n"),
    "no last line end": ENV[:-1],
    "empty lines": b"\n" + ENV.replace(b"\n", b"\n\n"),
    "blanks at the ends of lines": ENV.replace(b"\n", b" \t\n"),
    "a byte order mark": b"\xef\xbb\xbf" + ENV,
}


@pytest.mark.parametrize("how", CHANGED)
async def test_content_of_a_sacred_file_in_a_new_one(how: str, gate: RealGate) -> None:
    """Whatever executor made it: a blob says nothing of where it came from."""
    report = await judged(gate, gate.patch({"src/settings.txt": CHANGED[how]}))
    assert codes(report) == ["sacred_content"]


async def test_content_of_a_sacred_file_in_an_existing_one(gate: RealGate) -> None:
    assert codes(await judged(gate, gate.patch({"src/app.py": KEY}))) == ["sacred_content"]


async def test_content_that_lies_at_an_open_path_too_is_no_secret(gate: RealGate) -> None:
    report = await judged(gate, gate.patch({"src/sample.yaml": b"a: 1\n", "src/windows.yaml": b"a: 1\r\n"}))
    assert codes(report) == []


async def test_empty_files_are_copies_of_nothing(gate: RealGate) -> None:
    report = await judged(gate, gate.patch({"src/__init__.py": b""}))
    assert (codes(report), report.remarks) == ([], ())


async def test_sacred_file_that_a_later_baseline_has_counts(gate: RealGate, tmp_path: Path) -> None:
    gate.repository.commit({"deploy/.env": b"TOKEN=later\n"})
    async with open_gate(gate.repository, tmp_path / "later") as later:
        assert codes(await judged(later, later.patch({"src/x": b"TOKEN=later\n"}))) == ["sacred_content"]


async def test_copy_from_outside_the_contract_is_remarked(gate: RealGate) -> None:
    copied = await judged(gate, COPY.format("lib/helper.py", "helper.py").encode())
    assert codes(copied) == []
    assert [(each.rule, each.path) for each in copied.remarks] == [("copied_content", "src/helper.py")]
    assert "lib/helper.py" in copied.remarks[0].message


async def test_content_from_outside_the_contract_is_remarked(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/helper.py": OUTSIDE, "src/own.py": b"mine\n"}))
    tree = evidence(await gate.diff(result))["candidate_tree"]
    report = await gate.integrated(result, tree)
    assert codes(report) == []
    assert [(each.rule, each.path) for each in report.remarks] == [("copied_content", "src/helper.py")]


async def test_link_to_a_sacred_file(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow=("symlink",))) as gate:
        (gate.repository.path / "src/settings").symlink_to("../.env")
        assert codes(await judged(gate, gate.patch({}))) == ["symlink_escapes"]


async def test_copy_within_the_contract_is_no_remark(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/again.py": FILES["src/app.py"]}))
    tree = evidence(await gate.diff(result))["candidate_tree"]
    assert (await gate.integrated(result, tree)).remarks == ()
