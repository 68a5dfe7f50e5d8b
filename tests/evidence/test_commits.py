"""Commits verified by their notes: what is accepted, and every way in which evidence can be wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import RunManifest, codec
from gatewright.errors import GitError, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.git_note import NOTES, attach_note, note_of
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.commits import CommitVerifier, commits_of_range
from gatewright.evidence.verification.note import MAX_NOTE_BYTES
from gatewright.git.command import GitCommand
from tests.evidence.attested_commits import Attested
from tests.evidence.queue_landings import RUNS, Landings, landings
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "landings", "make_repository"]

pytestmark = pytest.mark.every_case


@pytest.fixture
def attested(make_repository: MakeRepository, sealed_bundles: dict[str, Path], signer: Signer) -> Attested:
    return Attested(make_repository(), sealed_bundles, signer)


@pytest.fixture(scope="module")
def stranger() -> Signer:
    return Signer(keys.generate())


def test_a_landed_commit_is_verified_by_its_note(attested: Attested, signer: Signer) -> None:
    commit = attested.land()
    verdict = attested.verdict(commit)
    assert (verdict.outcome, verdict.found_by, verdict.code) == ("verified", "note", "")
    assert verdict.proof is not None
    assert (verdict.proof.commit, verdict.proof.tree, verdict.proof.signer) == (commit, attested.tree(commit), signer.key_id)
    assert "GATEWRIGHT_TESTS_GATE" in verdict.proof.levels
    assert "acceptance/unit" in verdict.proof.passed


def test_a_squash_keeps_the_tree_and_is_verified_by_it(attested: Attested) -> None:
    start = attested.repository.head()
    attested.commit()
    landed = attested.land()
    attested.repository.git("reset", "--quiet", "--soft", start)
    squashed = attested.repository.commit({}, "squashed")
    verdict = attested.verdict(squashed)
    assert squashed != landed
    assert (verdict.outcome, verdict.found_by) == ("verified", "tree")
    assert verdict.proof is not None
    assert verdict.proof.commit == landed


def test_one_valid_note_about_a_tree_is_enough(attested: Attested, stranger: Signer) -> None:
    landed = attested.land()
    squashed = attested.repository.commit({}, "same tree")
    forged = attested.commit()
    attested.attach(forged, attested.note(landed, signer=stranger))
    assert attested.verdict(squashed).outcome == "verified"


def test_a_forged_note_about_a_tree_fails(attested: Attested, stranger: Signer) -> None:
    commit, other = attested.commit(), attested.commit()
    attested.attach(other, attested.note(commit, signer=stranger))
    verdict = attested.verdict(commit)
    assert (verdict.outcome, verdict.found_by, verdict.code) == ("failed", "tree", "untrusted_key")


def test_a_commit_of_a_person_is_not_found(attested: Attested) -> None:
    attested.land()
    verdict = attested.verdict(attested.commit())
    assert (verdict.outcome, verdict.found_by, verdict.code) == ("not_found", "", "commit_unattested")


def test_a_range_lists_each_commit_and_is_as_good_as_its_worst(attested: Attested, stranger: Signer) -> None:
    start = attested.repository.head()
    landed = [attested.land() for _ in range(28)]
    good = attested.range(f"{start}..HEAD")
    assert (good.outcome, dict(good.counts)) == ("verified", {"verified": 28})
    assert [verdict.commit for verdict in good.verdicts] == landed
    attested.commit()
    assert attested.range(f"{start}..HEAD").outcome == "not_found"
    forged = attested.commit()
    attested.attach(forged, attested.note(forged, signer=stranger))
    worst = attested.range(f"{start}..HEAD")
    assert (worst.outcome, dict(worst.counts)) == ("failed", {"verified": 28, "not_found": 1, "failed": 1})


def test_a_merge_commit_is_in_the_range_with_both_sides(attested: Attested) -> None:
    start = attested.land()
    attested.repository.git("checkout", "--quiet", "-b", "side")
    attested.repository.commit({"side.txt": b"side\n"})
    attested.repository.git("checkout", "--quiet", "main")
    attested.land()
    attested.repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    found = attested.range(f"{start}..main")
    assert (found.outcome, dict(found.counts)) == ("not_found", {"verified": 1, "not_found": 2})


def test_an_empty_range_verifies_nothing(attested: Attested) -> None:
    attested.land()
    assert attested.range("HEAD..HEAD").outcome == "not_found"


@pytest.mark.parametrize("span", ["HEAD", "..HEAD", "HEAD..", "HEAD...HEAD", "a..b..c", ""])
def test_another_form_is_no_range(attested: Attested, span: str) -> None:
    with pytest.raises(MalformedError, match="not a range"):
        commits_of_range(attested.repository.checkout, span)


def test_an_option_in_a_range_reaches_no_command_line(attested: Attested, tmp_path: Path) -> None:
    with pytest.raises(GitError):
        commits_of_range(attested.repository.checkout, f"HEAD..--output={tmp_path}/made")
    assert not (tmp_path / "made").exists()


def test_each_merge_queue_commit_is_verified_by_its_runs_note(landings: Landings) -> None:
    commits: list[str] = []
    for bundle in landings.bundles.values():
        landed = codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest).repo.final_ref or ""
        asyncio.run(attach_note(landings.repository, landed, note_of(bundle)))
        commits.append(landed)
    git = GitCommand(Path(landings.repository))
    verdicts = CommitVerifier(git, [landings.key]).verify(commits).verdicts
    assert [(each.commit, each.outcome, each.found_by) for each in verdicts] == [(each, "verified", "note") for each in commits]
    assert len(set(commits)) == len(RUNS) + 2


def test_notes_in_many_folders_are_found(attested: Attested) -> None:
    commit = attested.commit()
    blob = attested.repository.git("hash-object", "-w", "--stdin", stdin=attested.note(commit)).decode().strip()
    inner = attested.repository.git("mktree", stdin=f"100644 blob {blob}\t{commit[4:]}\n".encode()).decode().strip()
    middle = attested.repository.git("mktree", stdin=f"040000 tree {inner}\t{commit[2:4]}\n".encode()).decode().strip()
    outer = attested.repository.git("mktree", stdin=f"040000 tree {middle}\t{commit[:2]}\n".encode()).decode().strip()
    tip = attested.repository.git("commit-tree", "-m", "notes", outer).decode().strip()
    attested.repository.git("update-ref", NOTES, tip)
    assert attested.verdict(commit).outcome == "verified"


def test_a_repository_with_sha256_works_the_same(
    make_repository: MakeRepository, sealed_bundles: dict[str, Path], signer: Signer
) -> None:
    attested = Attested(make_repository("long", sha256=True), sealed_bundles, signer)
    assert attested.verdict(attested.land()).outcome == "verified"


def test_a_run_of_another_repository_is_refused_where_one_is_required(attested: Attested, signer: Signer) -> None:
    commit = attested.land()
    (same,) = attested.verifier(landed_in="/srv/project").verify([commit]).verdicts
    (other,) = attested.verifier(landed_in="https://git.example.org/project").verify([commit]).verdicts
    assert (same.outcome, other.outcome, other.code) == ("verified", "failed", "note_of_other_repository")


# Tampering: each function puts a wrong note on the commit, and names the code that must be reported.
Tamper = Callable[[Attested, str, Signer], bytes]


def _note_of_another_commit(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.note(attested.repository.head(f"{commit}~1"), tree=attested.tree(commit))


def _note_about_another_tree(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.note(commit, tree=attested.tree(f"{commit}~1"))


def _other_key(attested: Attested, commit: str, stranger: Signer) -> bytes:
    return attested.note(commit, signer=stranger)


def _two_keys(attested: Attested, commit: str, stranger: Signer) -> bytes:
    return attested.envelopes(commit)[0] + b"\n" + attested.envelopes(commit, signer=stranger)[1] + b"\n"


def _changed_payload(attested: Attested, commit: str, _: Signer) -> bytes:
    lines = [json.loads(line) for line in attested.envelopes(attested.repository.head(f"{commit}~1"))]
    for line, genuine in zip(lines, attested.envelopes(commit), strict=True):
        line["payload"] = json.loads(genuine)["payload"]
    return b"".join(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n" for line in lines)


def _no_checks(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.envelopes(commit)[0] + b"\n"


def _summary_twice(attested: Attested, commit: str, _: Signer) -> bytes:
    return (attested.envelopes(commit)[0] + b"\n") * 2


def _unsigned(attested: Attested, commit: str, _: Signer) -> bytes:
    lines = [{**json.loads(line), "signatures": []} for line in attested.envelopes(commit)]
    return b"".join(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n" for line in lines)


def _failed_run(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.note(commit, run="failed")


def _failed_gate(attested: Attested, commit: str, _: Signer) -> bytes:
    def fail(statement: dict[str, Any]) -> None:
        statement["predicate"]["failedTests"] = ["gate/diff"]

    return attested.note(commit, checks=fail)


def _no_landing(attested: Attested, commit: str, _: Signer) -> bytes:
    def drop(statement: dict[str, Any]) -> None:
        statement["predicate"]["passedTests"].remove("gate/landing")

    return attested.note(commit, checks=drop)


def _other_manifest(attested: Attested, commit: str, _: Signer) -> bytes:
    def replace_manifest(statement: dict[str, Any]) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64

    return attested.note(commit, checks=replace_manifest)


def _without_commit(attested: Attested, commit: str, _: Signer) -> bytes:
    def drop(statement: dict[str, Any]) -> None:
        statement["subject"] = [each for each in statement["subject"] if "gitCommit" not in each["digest"]]

    return attested.note(commit, summary=drop, checks=drop)


def _two_commits(attested: Attested, commit: str, _: Signer) -> bytes:
    def add(statement: dict[str, Any]) -> None:
        statement["subject"].append({"digest": {"gitCommit": "1" * 40}, "name": "other"})

    return attested.note(commit, summary=add, checks=add)


def _other_verifier(attested: Attested, commit: str, _: Signer) -> bytes:
    def rename(statement: dict[str, Any]) -> None:
        statement["predicate"]["verifier"]["id"] = "https://example.org/other"

    return attested.note(commit, summary=rename)


def _no_level(attested: Attested, commit: str, _: Signer) -> bytes:
    def clear(statement: dict[str, Any]) -> None:
        statement["predicate"]["verifiedLevels"] = []

    return attested.note(commit, summary=clear)


def _other_kind(attested: Attested, commit: str, _: Signer) -> bytes:
    first, second = attested.envelopes(commit)
    return second + b"\n" + first + b"\n"


def _merged_notes(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.note(commit) + attested.note(attested.repository.head(f"{commit}~1"))


def _garbage(_attested: Attested, _commit: str, _: Signer) -> bytes:
    return b"reviewed, looks good\n\xff\n"


def _huge(attested: Attested, commit: str, _: Signer) -> bytes:
    return attested.note(commit) + b"\n" * MAX_NOTE_BYTES


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (_note_of_another_commit, "note_of_other_commit"),
        (_note_about_another_tree, "note_of_other_commit"),
        (_other_key, "untrusted_key"),
        (_two_keys, "untrusted_key"),
        (_changed_payload, "bad_signature"),
        (_no_checks, "note_malformed"),
        (_summary_twice, "bad_statement"),
        (_unsigned, "bad_envelope"),
        (_failed_run, "run_not_passed"),
        (_failed_gate, "run_not_passed"),
        (_no_landing, "run_not_passed"),
        (_other_manifest, "statements_contradict"),
        (_without_commit, "statements_contradict"),
        (_two_commits, "statements_contradict"),
        (_other_verifier, "statements_contradict"),
        (_no_level, "run_not_passed"),
        (_other_kind, "bad_statement"),
        (_merged_notes, "note_malformed"),
        (_garbage, "bad_envelope"),
        (_huge, "note_malformed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_note_fails_its_commit(attested: Attested, stranger: Signer, tamper: Tamper, code: str) -> None:
    commit = attested.commit()
    attested.attach(commit, tamper(attested, commit, stranger))
    verdict = attested.verdict(commit)
    assert (verdict.outcome, verdict.found_by, verdict.code, verdict.proof) == ("failed", "note", code, None)


def test_statements_by_two_trusted_keys_are_no_pair(attested: Attested, stranger: Signer) -> None:
    commit = attested.commit()
    attested.attach(commit, _two_keys(attested, commit, stranger))
    (verdict,) = attested.verifier(attested.signer, stranger).verify([commit]).verdicts
    assert (verdict.outcome, verdict.code) == ("failed", "signer_differs")


@pytest.mark.parametrize(("retired", "outcome"), [("2026-01-02T03:04:13Z", "failed"), ("2026-01-02T03:04:15Z", "verified")])
def test_a_key_verifies_only_runs_that_ended_before_its_retirement(attested: Attested, retired: str, outcome: str) -> None:
    commit = attested.land()
    key = replace(attested.signer.public, retired=retired)
    (verdict,) = CommitVerifier(attested.repository.checkout.objects, [key]).verify([commit]).verdicts
    assert (verdict.outcome, verdict.code) == (outcome, "signed_after_retirement" if outcome == "failed" else "")


def test_a_note_on_a_tree_is_no_note_on_a_commit(attested: Attested) -> None:
    commit = attested.commit()
    attested.attach(attested.tree(commit), attested.note(attested.repository.head(f"{commit}~1")))
    assert attested.verdict(commit).outcome == "not_found"


def test_two_notes_of_one_commit_fail_verification(attested: Attested) -> None:
    commit = attested.land()
    blob = attested.repository.git("notes", f"--ref={NOTES}", "list", commit).decode().strip()
    inner = attested.repository.git("mktree", stdin=f"100644 blob {blob}\t{commit[2:]}\n".encode()).decode().strip()
    entries = f"040000 tree {inner}\t{commit[:2]}\n100644 blob {blob}\t{commit}\n"
    outer = attested.repository.git("mktree", stdin=entries.encode()).decode().strip()
    attested.repository.git("update-ref", NOTES, attested.repository.git("commit-tree", "-m", "n", outer).decode().strip())
    assert attested.verdict(commit).code == "note_malformed"


def test_replace_refs_do_not_lend_a_commit_the_note_of_another(attested: Attested) -> None:
    landed = attested.land()
    other = attested.commit()
    attested.repository.git("replace", other, landed)
    assert attested.repository.git("log", "-1", "--format=%T", other).decode().strip() == attested.tree(landed)
    assert attested.verdict(other).outcome == "not_found"


@pytest.mark.parametrize("trick", ["grafts", "replace"])
def test_a_changed_parent_hides_no_commit_of_a_range(attested: Attested, trick: str) -> None:
    start = attested.repository.head()
    hidden, landed = attested.commit(), attested.land()
    if trick == "grafts":
        (attested.repository.path / ".git" / "info").mkdir(exist_ok=True)
        (attested.repository.path / ".git" / "info" / "grafts").write_text(f"{landed} {start}\n")
    else:
        attested.repository.git("replace", "--graft", landed, start)
    assert attested.repository.git("rev-list", f"{start}..{landed}").split() == [landed.encode()]
    found = attested.range(f"{start}..{landed}")
    assert [(verdict.commit, verdict.outcome) for verdict in found.verdicts] == [(hidden, "not_found"), (landed, "verified")]


def test_an_object_with_other_bytes_than_its_id_names_is_no_commit(attested: Attested) -> None:
    landed, other = attested.land(), attested.commit()
    objects = attested.repository.path / ".git" / "objects"
    place = objects / other[:2] / other[2:]
    place.chmod(0o644)
    place.write_bytes((objects / landed[:2] / landed[2:]).read_bytes())
    with pytest.raises(GitError) as caught:
        attested.verdict(other)
    assert caught.value.reason in {"object_missing", "git_failed"}


def test_a_range_of_a_shallow_clone_has_no_answer(attested: Attested, tmp_path: Path) -> None:
    start = attested.repository.head()
    attested.commit()
    landed = attested.land()
    attested.repository.git("clone", "--quiet", "--depth=1", f"file://{attested.repository.path}", str(tmp_path / "clone"))
    clone = Attested(Repository(tmp_path / "clone", attested.repository.home), attested.bundles, attested.signer)
    clone.repository.git("fetch", "--quiet", "--depth=1", "origin", start, f"{NOTES}:{NOTES}")
    with pytest.raises(GitError) as caught:
        clone.range(f"{start}..{landed}")
    assert caught.value.reason == "history_shallow"
    assert clone.verdict(landed).outcome == "verified"


def test_without_the_ref_the_command_that_fetches_it_is_named(attested: Attested) -> None:
    with pytest.raises(GitError, match="git fetch origin refs/notes/gatewright:refs/notes/gatewright") as caught:
        attested.verdict(attested.commit())
    assert caught.value.reason == "notes_missing"


@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_a_ref_of_notes_that_is_no_commit_has_no_answer(attested: Attested, kind: str) -> None:
    commit = attested.commit()
    blob = attested.repository.git("hash-object", "-w", "--stdin", stdin=attested.note(commit)).decode().strip()
    tree = attested.repository.git("mktree", stdin=f"100644 blob {blob}\t{commit}\n".encode()).decode().strip()
    attested.repository.git("update-ref", NOTES, {"blob": blob, "tree": tree}[kind])
    with pytest.raises(GitError) as caught:
        attested.verdict(commit)
    assert caught.value.reason == "notes_unreadable"


def test_a_note_that_was_not_fetched_has_no_answer(attested: Attested) -> None:
    commit = attested.land()
    blob = attested.repository.git("notes", f"--ref={NOTES}", "list", commit).decode().strip()
    (attested.repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError) as caught:
        attested.verdict(commit)
    assert caught.value.reason == "object_missing"


def test_a_commit_that_is_not_there_has_no_answer(attested: Attested) -> None:
    attested.land()
    with pytest.raises(GitError):
        attested.verdict("1" * 40)
