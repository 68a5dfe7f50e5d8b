"""Verification with a repository: the recorded trees, patch and commit are held against git's own objects."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import SourceBranch
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from tests.evidence.recorded_runs import GitFacts, RecordedRun, make_failed, make_success
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

Check = Callable[[GitFacts], Verification]
WHEN = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


@pytest.fixture
def facts(repository: Repository, tmp_path: Path) -> GitFacts:
    """A change of src/app.py that has landed in ``repository``."""

    async def land() -> GitFacts:
        mirror = await Mirrors(tmp_path / "landing").open(repository.url)
        baseline = await mirror.resolve("main")
        before = await mirror.tree_of(baseline)
        tree = await mirror.write_tree(before, [FileChange(b"src/app.py", "100644", b"changed\n")])
        facts = GitFacts(baseline, before, tree, "", await mirror.diff(before, tree), (b"src/app.py",))
        commit = await mirror.commit_tree(tree, parent=baseline, message=trailers(facts), when=WHEN)
        await mirror.push(commit, "refs/heads/landed", expected=None)
        return replace(facts, commit=commit)

    return asyncio.run(land())


@pytest.fixture
def check(repository: Repository, signer: Signer, tmp_path: Path) -> Check:
    """Seal a successful run about ``facts`` and verify it with the repository."""

    def checked(facts: GitFacts) -> Verification:
        run = make_success(facts)
        sealed = asyncio.run(BundleWriter(tmp_path / "runs").seal(run.run, run.transitions, run.store, signer))
        return verify(Path(sealed.location), [signer.public], repository.url)

    return checked


def trailers(facts: GitFacts) -> str:
    """The message of the commit that the run about ``facts`` lands: it names what had happened before the landing."""
    run = make_success(facts)
    contract, event = run.run.contract, run.records[3]
    assert contract
    digest = hashlib.sha256(codec.encode(contract)).hexdigest()
    lines = (f"Run: {run.run_id}", f"Contract: sha256:{digest}", f"Event-Chain: {event.seq}:{event.hash}")
    return "landed\n\n" + "".join(f"Gatewright-{line}\n" for line in lines)


@dataclass
class RequestedRun(RecordedRun):
    """A run that judges a pull request."""

    source: SourceBranch | None = None

    def request(self) -> RunRequest:
        return structs.replace(super().request(), source_branch=self.source)

    def contract(self, **changes: object) -> TaskContract:
        return super().contract(**{"source_branch": self.source, **changes})


def verify_source(facts: GitFacts, source: SourceBranch, repository: Repository, signer: Signer, folder: Path) -> Verification:
    """Seal a run that judged ``source``, landing nothing that the repository has, and verify it."""
    run = make_success(facts, RequestedRun(git=facts, source=source))
    sealed = asyncio.run(BundleWriter(folder).seal(run.run, run.transitions, run.store, signer))
    return verify(Path(sealed.location), [signer.public], repository.url)


def test_the_change_of_a_pull_request_is_compared_with_its_head(
    facts: GitFacts, repository: Repository, signer: Signer, tmp_path: Path
) -> None:
    def head_of(tree: str) -> str:
        commit = repository.git("commit-tree", tree, "-p", facts.baseline, "-m", "offered").decode().strip()
        repository.git("update-ref", "refs/pull/7/head", commit)
        return commit

    author = "A. Person <person@example.org>"
    source = SourceBranch(name="topic", head=head_of(facts.tree), base=facts.baseline, commits=1, authors=(author,))
    source = structs.replace(source, ref="refs/pull/7/head")
    found = verify_source(facts, source, repository, signer, tmp_path / "same")
    assert "patch_leads_elsewhere" not in {code for _, code in codes(found)}
    assert not any("refs/pull/7/head" in words for words in found.unchecked)
    other = structs.replace(source, head=head_of(facts.baseline_tree))
    found = verify_source(facts, other, repository, signer, tmp_path / "other")
    assert (8, "patch_leads_elsewhere") in codes(found)
    gone = structs.replace(source, head="8" * 40)
    found = verify_source(facts, gone, repository, signer, tmp_path / "gone")
    assert any("refs/pull/7/head" in words for words in found.unchecked)


def codes(verification: Verification) -> list[tuple[int, str]]:
    return [(finding.step, finding.code) for finding in verification.findings]


def test_the_repository_agrees_with_the_bundle(check: Check, facts: GitFacts) -> None:
    found = check(facts)
    assert found.ok, found.findings
    assert found.checked[-1] == "8 repository"
    assert not any("give --repo" in words for words in found.unchecked)


def test_a_patch_that_leads_to_another_tree(check: Check, facts: GitFacts) -> None:
    other = facts.patch.replace(b"+changed", b"+altered")
    assert codes(check(replace(facts, patch=other))) == [(8, "patch_leads_elsewhere")]


def test_a_patch_that_does_not_apply(check: Check, facts: GitFacts) -> None:
    other = facts.patch.replace(b"-two", b"-owt")
    assert codes(check(replace(facts, patch=other))) == [(8, "patch_does_not_apply")]


def test_a_patch_that_is_not_git_s_own_diff(check: Check, facts: GitFacts) -> None:
    other = b"From: Ana\nSubject: words before the patch\n\n" + facts.patch
    assert codes(check(replace(facts, patch=other))) == [(8, "patch_not_canonical")]


def test_a_baseline_that_the_repository_does_not_have(check: Check, facts: GitFacts) -> None:
    assert codes(check(replace(facts, baseline="8" * 40))) == [(8, "baseline_missing")]


def test_a_baseline_with_another_tree(check: Check, facts: GitFacts) -> None:
    assert codes(check(replace(facts, baseline_tree="8" * 40))) == [(8, "baseline_differs")]


def test_a_landed_commit_that_is_gone(check: Check, facts: GitFacts, repository: Repository) -> None:
    repository.git("update-ref", "-d", "refs/heads/landed")
    repository.git("gc", "--quiet", "--prune=now")
    assert codes(check(facts)) == [(8, "landed_missing")]


def test_a_landed_commit_with_another_tree_or_parent(check: Check, facts: GitFacts, repository: Repository) -> None:
    child = repository.commit({"README.md": b"other\n"}, trailers(facts))
    assert codes(check(replace(facts, commit=child))) == [(8, "landed_differs")]
    orphan = repository.git("commit-tree", facts.tree, "-m", trailers(facts)).decode().strip()
    repository.git("update-ref", "refs/heads/orphan", orphan)
    (finding,) = [found for found in check(replace(facts, commit=orphan)).findings if found.step == 8]
    assert finding.code == "landed_differs"
    assert "parents" in finding.message


def test_a_landed_commit_that_names_another_run(check: Check, facts: GitFacts, repository: Repository) -> None:
    words = trailers(facts).replace("Gatewright-Run: run-", "Gatewright-Run: run-other-")
    other = repository.git("commit-tree", facts.tree, "-p", facts.baseline, "-m", words).decode().strip()
    repository.git("update-ref", "refs/heads/other", other)
    assert codes(check(replace(facts, commit=other))) == [(8, "trailers_differ")]


def test_a_changed_path_outside_the_contract(check: Check, repository: Repository, facts: GitFacts, tmp_path: Path) -> None:
    async def elsewhere() -> GitFacts:
        mirror = await Mirrors(tmp_path / "wider").open(repository.url)
        await mirror.ensure(facts.baseline)
        tree = await mirror.write_tree(facts.baseline_tree, [FileChange(b"README.md", "100644", b"changed\n")])
        patch = await mirror.diff(facts.baseline_tree, tree)
        wider = replace(facts, tree=tree, patch=patch, names=(b"README.md",))
        commit = await mirror.commit_tree(tree, parent=facts.baseline, message=trailers(wider), when=WHEN)
        await mirror.push(commit, "refs/heads/wider", expected=None)
        return replace(wider, commit=commit)

    assert (8, "path_out_of_scope") in codes(check(asyncio.run(elsewhere())))


@pytest.mark.parametrize("url", ["/nowhere/at/all", "ext::sh -c true", "--upload-pack=true"])
def test_a_repository_that_cannot_be_had_is_never_a_pass(sealed_bundles: dict[str, Path], signer: Signer, url: str) -> None:
    found = verify(sealed_bundles["success"], [signer.public], url)
    assert codes(found) == [(8, "repository_unavailable")]
    assert found.outcome == "incomplete"


def test_a_run_without_a_candidate_is_checked_as_far_as_it_went(
    facts: GitFacts, repository: Repository, signer: Signer, tmp_path: Path
) -> None:
    run = make_failed(facts)
    sealed = asyncio.run(BundleWriter(tmp_path / "runs").seal(run.run, run.transitions, run.store, signer))
    found = verify(Path(sealed.location), [signer.public], repository.url)
    assert found.ok
    assert any("no candidate" in words for words in found.unchecked)


def test_verifying_leaves_the_repository_as_it_was(check: Check, facts: GitFacts, repository: Repository) -> None:
    before = {path: path.stat().st_mtime_ns for path in repository.path.rglob("*")}
    assert check(facts).ok
    assert {path: path.stat().st_mtime_ns for path in repository.path.rglob("*")} == before


def test_a_ref_that_does_not_hold_what_landed_on_it(check: Check, facts: GitFacts, repository: Repository) -> None:
    ref = f"refs/heads/gatewright/{make_success(facts).run_id}"
    repository.git("update-ref", ref, facts.commit)
    assert check(facts).ok
    later = repository.git("commit-tree", facts.tree, "-p", facts.commit, "-m", "later").decode().strip()
    repository.git("update-ref", ref, later)
    assert check(facts).ok
    repository.git("update-ref", ref, facts.baseline)
    assert codes(check(facts)) == [(8, "landed_not_on_ref")]


def test_a_missing_ref_is_reported(check: Check, facts: GitFacts) -> None:
    found = check(facts)
    assert found.ok
    assert any("refs/heads/gatewright/" in words and "no longer" in words for words in found.unchecked)
