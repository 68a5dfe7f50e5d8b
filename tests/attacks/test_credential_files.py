"""Files of which the content decides whether they are sacred, through the real gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Scope
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import RealGate, codes, open_gate
from tests.git.repositories import MakeRepository

PUBLIC = b"-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----\n"
#: Of a form that no scanner needs to know: that the name is of a key decides.
SECRET = b"3f8a1c0d9b7e6f5a4c3b2a1908f7e6d5\n"
FILES = {
    "src/de.key": b"greeting = Guten Tag\n",
    "src/.env.test": b"TOKEN=\n",
    "src/master.key": SECRET,
    "src/.env.production": b"MODE=live\n",
}


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow=("binary",))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("src/prod.key", SECRET),
        ("src/de.key", SECRET),
        ("src/raw.pem", b"\x30\x82\xff\xfe\x00"),
        ("src/.env.test", b"TOKEN=live\n"),
        ("src/.env.local", b"MODE=live\n"),
        ("src/prod.tfvars", b'db_password = "correct horse"\n'),
        ("src/.env.production", b"MODE=\n"),
        ("src/master.key", None),
        ("src/.env", b"TOKEN=\n"),
        ("src/.ssh/de.key", b"greeting = Guten Tag\n"),
        ("src/x.key/.netrc", b"words\n"),
        ("src/.e\u200cnv.local", b"A=b\nC=d e\n"),
    ],
)
async def test_file_with_a_credential_is_refused(path: str, content: bytes | None, gate: RealGate) -> None:
    report = await gate.diff(await gate.worked(gate.patch({path: content})))
    assert ("path_protected", "protected_paths.sacred") in {(each.code, each.rule) for each in report.violations}
    assert retry_options(report) == ()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("src/de.key", b"greeting = Hallo Welt\n"),
        ("src/de.key", None),
        ("src/release.key", PUBLIC),
        ("src/ca.pem", PUBLIC),
        ("src/.env.test", b"TOKEN=\nURL=<your url>\n"),
        ("src/eu.tfvars", b'region = "eu"\n'),
    ],
)
async def test_file_without_a_credential_is_let_in(path: str, content: bytes | None, gate: RealGate) -> None:
    assert codes(await gate.diff(await gate.worked(gate.patch({path: content})))) == []


async def test_file_too_large_to_judge_counts_as_a_credential(gate: RealGate) -> None:
    report = await gate.diff(await gate.worked(gate.patch({"src/big.key": b"words of a page\n" * 70_000})))
    assert "protected_paths.sacred" in {each.rule for each in report.violations}


async def test_translation_of_that_name_may_be_copied(gate: RealGate) -> None:
    patch = b"diff --git a/src/de.key b/src/at.key\nsimilarity index 100%\ncopy from src/de.key\ncopy to src/at.key\n"
    assert codes(await gate.diff(await gate.worked(patch))) == []


async def test_key_may_not_be_copied_to_a_plain_name(gate: RealGate) -> None:
    patch = b"diff --git a/src/master.key b/src/a.txt\nsimilarity index 100%\ncopy from src/master.key\ncopy to src/a.txt\n"
    assert set(codes(await gate.diff(await gate.worked(patch)))) == {"sacred_content"}
