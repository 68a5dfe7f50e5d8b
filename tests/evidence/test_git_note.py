"""The signed statements as a git note: read back with git alone, verified with libraries that are not ours."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from gatewright.errors import GitError, MalformedError
from gatewright.evidence.git_note import NOTES, attach_note, note_of
from gatewright.evidence.signing.envelopes import open_envelope
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


@pytest.fixture
def commit(repository: Repository, tmp_path: Path) -> str:
    async def land() -> str:
        mirror = await Mirrors(tmp_path / "landing").open(repository.url)
        parent = await mirror.resolve("main")
        tree = await mirror.write_tree(parent, [FileChange(b"src/app.py", "100644", b"changed\n")])
        landed = await mirror.commit_tree(tree, parent=parent, message="landed", when=datetime(2026, 1, 2, tzinfo=UTC))
        await mirror.push(landed, "refs/heads/landed", expected=None)
        return landed

    return asyncio.run(land())


def git(repository: Repository, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository.path), *words], capture_output=True, check=True).stdout


def show(repository: Repository, commit: str) -> bytes:
    return git(repository, "notes", "--ref=gatewright", "show", commit)


def test_git_alone_reads_the_note_and_securesystemslib_alone_verifies_it(
    repository: Repository, commit: str, sealed_bundles: dict[str, Path], private_key: PrivateKey
) -> None:
    assert asyncio.run(attach_note(repository.url, commit, note_of(sealed_bundles["success"])))
    kinds = []
    for line in show(repository, commit).splitlines():
        envelope = Envelope.from_dict(json.loads(line))
        public = SSlibKey(private_key.public.key_id, "ed25519", "ed25519", {"public": private_key.public.raw.hex()})
        envelope.verify([public], 1)
        kinds.append(json.loads(envelope.payload)["predicateType"])
    assert kinds == ["https://slsa.dev/verification_summary/v1", "https://in-toto.io/attestation/test-result/v0.1"]


def test_what_is_read_back_is_byte_for_byte_what_was_signed(
    repository: Repository, commit: str, sealed_bundles: dict[str, Path], private_key: PrivateKey
) -> None:
    note = note_of(sealed_bundles["success"])
    asyncio.run(attach_note(repository.url, commit, note))
    (blob,) = git(repository, "notes", "--ref=gatewright", "list", commit).split()
    again = git(repository, "cat-file", "blob", blob.decode())
    assert again == note
    assert [open_envelope(each, [private_key.public])[1] for each in again.splitlines()] == [private_key.public] * 2


def test_neither_work_tree_nor_branches_nor_the_commit_change(
    repository: Repository, commit: str, sealed_bundles: dict[str, Path]
) -> None:
    (repository.path / "src" / "app.py").write_text("somebody's edit\n")

    def state() -> tuple[bytes, ...]:
        refs = b"".join(line for line in git(repository, "show-ref").splitlines(True) if NOTES.encode() not in line)
        return refs, git(repository, "status", "--porcelain"), git(repository, "cat-file", "-p", commit)

    before = state()
    asyncio.run(attach_note(repository.url, commit, note_of(sealed_bundles["success"])))
    assert state() == before


def test_attaching_twice_writes_once_and_another_bundle_takes_the_place(
    repository: Repository, commit: str, sealed_bundles: dict[str, Path]
) -> None:
    first, second = note_of(sealed_bundles["success"]), note_of(sealed_bundles["fixed"])
    assert [asyncio.run(attach_note(repository.url, commit, note)) for note in (first, first, second)] == [True, False, True]
    assert show(repository, commit) == second
    assert git(repository, "rev-list", "--count", NOTES) == b"2\n"


def test_notes_of_others_stay(repository: Repository, commit: str, sealed_bundles: dict[str, Path]) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    git(repository, *identity, "notes", "--ref=gatewright", "add", "--message", "somebody's words", "main")
    asyncio.run(attach_note(repository.url, commit, note_of(sealed_bundles["success"])))
    assert show(repository, "main") == b"somebody's words\n"


def test_a_commit_that_is_not_there_gets_no_note(repository: Repository, sealed_bundles: dict[str, Path]) -> None:
    with pytest.raises(GitError):
        asyncio.run(attach_note(repository.url, "1" * 40, note_of(sealed_bundles["success"])))
    assert NOTES.encode() not in git(repository, "show-ref")


def test_a_bundle_without_signature_makes_no_note(tmp_path: Path) -> None:
    with pytest.raises(MalformedError) as caught:
        note_of(tmp_path)
    assert caught.value.reason == "not_signed"
