"""Credentials in what no file gets of a patch or a reply: it is stored, and so it is searched."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Scope
from gatewright.errors import ArtifactError
from gatewright.evidence.projection.screening import ScreenedArtifacts
from tests.attacks import planted
from tests.attacks.real_gate import SHARD, RealGate, codes, default_scanner, evidence, open_gate
from tests.git.repositories import MakeRepository

SECRET = planted.GITHUB.encode()
OLD_KEY = planted.STRIPE.encode()
FILES = {
    "src/app.py": b"one\ntwo\nthree\n",
    "src/keyed.py": b"KEY = '" + OLD_KEY + b"'\nother = 1\n",
    "src/open.txt": b"no end",
    "src/raw.bin": bytes(range(200)),
}
EDIT = b"diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
MAIL = b"From: Ana <ana@example.org>\nSubject: [PATCH] change\n\n%b\n---\n"


def binary(old: bytes, new: bytes, reverse: bytes) -> bytes:
    """A binary change whose part that undoes it holds ``reverse``."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    body = b""
    for data in (bytes(range(199)), reverse):
        packed = zlib.compress(data)
        pieces = [packed[at : at + 52] for at in range(0, len(packed), 52)]
        lines = (letters[len(piece) - 1 : len(piece)] + base64.b85encode(piece, pad=True) + b"\n" for piece in pieces)
        body += b"literal %d\n%b\n" % (len(data), b"".join(lines))
    return b"diff --git a/src/raw.bin b/src/raw.bin\nindex %b..%b 100644\nGIT binary patch\n%b" % (old, new, body)


PLACES = {
    "the words of a mail": (MAIL % SECRET + EDIT, 4),
    "the subject of a mail": (MAIL.replace(b"change", SECRET) % b"" + EDIT, 2),
    "the signature of a mail": (MAIL % b"" + EDIT + b"-- \n" + SECRET + b"\n", 15),
    "the heading of a hunk": (EDIT.replace(b"@@\n", b"@@ " + SECRET + b"\n"), 4),
    "the time of a file": (EDIT.replace(b"+++ b/src/app.py", b"+++ b/src/app.py\t" + planted.AWS.encode()), 3),
    "the marker of a file's end": (
        b"--- a/src/open.txt\n+++ b/src/open.txt\n@@ -1 +1 @@\n-no end\n\\ No newline "
        + SECRET + b"\n+end\n",
        5,
    ),
}  # fmt: skip


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path, scope=Scope(allow=("binary",))) as opened:
        yield opened


def screened(gate: RealGate) -> ScreenedArtifacts:
    return ScreenedArtifacts(gate.bus, gate.run, default_scanner())


@pytest.mark.parametrize("place", PLACES)
async def test_a_credential_in_text_that_no_file_gets(place: str, gate: RealGate) -> None:
    patch, line = PLACES[place]
    result = await gate.worked(patch)
    report = await gate.diff(result)
    assert codes(report) == ["secret_found"]
    assert report.violations[0].detail == f"line {line} of the patch looks like a secret"
    assert planted.GITHUB not in repr(report)
    gate.run = replace(gate.run, tasks={SHARD: replace(gate.task(), status="FAILED", result=result, tree="1" * 40)})
    with pytest.raises(ArtifactError):
        await screened(gate).get_artifact(result.git.patch)


async def test_a_credential_in_the_part_that_undoes_a_binary_change(gate: RealGate) -> None:
    old = gate.repository.git("rev-parse", "HEAD:src/raw.bin").strip()
    new = gate.repository.git("hash-object", "--stdin", stdin=bytes(range(199))).strip()
    honest = await gate.diff(await gate.worked(binary(old, new, bytes(range(200)))))
    assert codes(honest) == []
    result = await gate.worked(binary(old, new, SECRET + b"\n"))
    assert codes(await gate.diff(result)) == ["secret_found"]
    with pytest.raises(ArtifactError):
        await screened(gate).get_artifact(result.git.patch)


async def test_a_credential_that_an_applied_patch_removes_is_kept(gate: RealGate) -> None:
    result = await gate.worked(gate.patch({"src/keyed.py": b"KEY = load()\nother = 1\n"}))
    report = await gate.diff(result)
    assert codes(report) == []
    tree = evidence(report)["candidate_tree"]
    gate.run = replace(gate.run, tasks={SHARD: replace(gate.task(), status="SUCCESS", result=result, tree=tree)})
    assert OLD_KEY in await screened(gate).get_artifact(result.git.patch)


async def test_a_credential_in_a_patch_that_the_integrated_gate_refused(gate: RealGate) -> None:
    """The diff gate had let the task succeed."""
    result = await gate.worked(gate.patch({"src/app.py": b"token = '" + SECRET + b"'\n"}))
    tree = evidence(await gate.diff(result))["candidate_tree"]
    gate.run = replace(gate.run, tasks={SHARD: replace(gate.task(), status="SUCCESS", result=result, tree=tree)})
    with pytest.raises(ArtifactError):
        await screened(gate).get_artifact(result.git.patch)


async def test_a_credential_in_removed_lines_of_an_inapplicable_patch(gate: RealGate) -> None:
    result = await gate.worked(EDIT.replace(b"-two", b"-" + SECRET))
    assert codes(await gate.diff(result)) == ["patch_does_not_apply"]
    gate.run = replace(gate.run, tasks={SHARD: replace(gate.task(), status="FAILED", result=result)})
    with pytest.raises(ArtifactError):
        await screened(gate).get_artifact(result.git.patch)


async def test_an_old_leak_in_a_hunk_heading_is_accepted(gate: RealGate) -> None:
    patch = gate.patch({"src/keyed.py": b"KEY = '" + OLD_KEY + b"'\nother = 2\n"})
    assert codes(await gate.diff(await gate.worked(patch.replace(b"@@\n", b"@@ " + OLD_KEY + b"\n")))) == []
