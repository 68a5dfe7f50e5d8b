"""``gatewright verify-commit``: its exit codes, and what it prints for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from tests.cli.conftest import Command
from tests.evidence.attested_commits import Attested
from tests.evidence.conftest import private_key, recorded_runs, sealed_bundles, signer
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository", "private_key", "recorded_runs", "sealed_bundles", "signer"]


@pytest.fixture
def attested(make_repository: MakeRepository, sealed_bundles: dict[str, Path], signer: Signer, tmp_path: Path) -> Attested:
    (tmp_path / "trusted.pem").write_bytes(signer.public.pem())
    return Attested(make_repository(), sealed_bundles, signer)


def test_a_verified_commit_ends_with_0_and_its_levels(attested: Attested, gatewright: Command) -> None:
    commit = attested.land()
    said = gatewright("verify-commit", commit, "--repo", attested.repository.path, "--key", "trusted.pem")
    assert said.exit_code == 0
    assert said.out.splitlines()[0] == f"✔ {commit}: verified by note"
    assert "GATEWRIGHT_TESTS_GATE" in said.out


def test_a_squashed_commit_exits_0_and_lists_what_is_unproven(attested: Attested, gatewright: Command) -> None:
    landed = attested.land()
    squashed = attested.repository.commit({}, "squashed")
    said = gatewright("verify-commit", "HEAD", "--repo", attested.repository.path, "--key", "trusted.pem")
    assert said.exit_code == 0
    assert said.out.splitlines()[0] == f"✔ {squashed}: verified by tree"
    assert f"the run landed {landed}: author, message and parents of this commit are not proven" in said.out


def test_wrong_evidence_ends_with_1(attested: Attested, gatewright: Command) -> None:
    commit = attested.commit()
    attested.attach(commit, attested.note(commit, signer=Signer(keys.generate())))
    said = gatewright("verify-commit", commit, "--repo", attested.repository.path, "--key", "trusted.pem", "--json")
    (document,) = said.documents
    assert (said.exit_code, document["ok"], document["outcome"]) == (1, False, "failed")
    assert [(each["commit"], each["code"]) for each in document["commits"]] == [(commit, "untrusted_key")]


def test_no_evidence_ends_with_2(attested: Attested, gatewright: Command) -> None:
    attested.land()
    attested.commit()
    said = gatewright("verify-commit", "HEAD", "--repo", attested.repository.path, "--key", "trusted.pem")
    assert said.exit_code == 2
    assert "[commit_unattested]" in said.out


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["HEAD", "--key", "trusted.pem"], "notes_missing"),
        (["HEAD", "--key", "other.pem"], "key_unreadable"),
        (["1" * 40, "--key", "trusted.pem"], "ref_not_found"),
        (["--range", "HEAD~9..HEAD", "--key", "trusted.pem"], "ref_not_found"),
        (["--range", "HEAD", "--key", "trusted.pem"], "bad_ref"),
        (["HEAD", "--range", "HEAD..HEAD", "--key", "trusted.pem"], "invalid_input"),
        (["--key", "trusted.pem"], "invalid_input"),
        (["HEAD", "--repo", ".", "--key", "trusted.pem"], "not_a_repository"),
    ],
)
def test_no_answer_ends_with_3(attested: Attested, gatewright: Command, words: list[str], code: str) -> None:
    where = [] if "--repo" in words else ["--repo", attested.repository.path]
    said = gatewright("verify-commit", *words, *where, "--json")
    (document,) = said.documents
    assert (said.exit_code, document["outcome"], document["commits"]) == (3, "unknown", [])
    assert document["error"]["code"] == code


def test_without_git_there_is_no_answer(attested: Attested, gatewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = attested.land()
    monkeypatch.setattr("gatewright.git.library_git.executable", _no_git)
    said = gatewright("verify-commit", commit, "--repo", attested.repository.path, "--key", "trusted.pem")
    assert (said.exit_code, "[git_missing]" in said.out) == (3, True)


def _no_git(name: str) -> str:
    from gatewright.errors import GitError

    raise GitError(f"{name} is not on PATH", code="git_missing")


def test_a_range_lists_what_is_not_verified_and_the_counts(attested: Attested, gatewright: Command) -> None:
    start = attested.repository.head()
    attested.land()
    attested.repository.commit({}, "same tree")
    words = ("verify-commit", "--range", f"{start}..HEAD", "--repo", attested.repository.path, "--key", "trusted.pem")
    good = gatewright(*words)
    assert (good.exit_code, good.out) == (0, "✔ 2 commits: 2 verified; 1 by tree\n")
    person = attested.commit()
    said = gatewright(*words)
    assert said.exit_code == 2
    assert said.out.splitlines()[0].startswith(f"✘ {person}: not found: ")
    assert said.out.splitlines()[-1] == "✘ 3 commits: 1 not found, 2 verified; 1 by tree"


def test_a_range_of_one_commit_and_an_empty_one_print_their_counts(attested: Attested, gatewright: Command) -> None:
    attested.land()
    words = ("--repo", attested.repository.path, "--key", "trusted.pem")
    one = gatewright("verify-commit", "--range", "HEAD~1..HEAD", *words)
    none = gatewright("verify-commit", "--range", "HEAD..HEAD", *words)
    assert (one.exit_code, none.exit_code) == (0, 2)
    assert none.out == "✘ 0 commits: nothing to verify; 0 by tree\n"
