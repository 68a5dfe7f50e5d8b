"""Runs that land nothing, through a whole stack: a plan, a review of a range, a test of a commit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import EvidenceBundle, RunRequest, codec
from gatewright.contracts.reports import EvidenceClaim, EvidenceQuote, EvidenceSource
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, Environment, Executor, Repository, Sharding, SourceBranch
from gatewright.run.state import Run
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, Stack
from tests.git.repositories import Repository as GitRepository

REFS = ("for-each-ref", "--format=%(refname) %(objectname)")


def request_of(project: Path, task_type: str, **fields: object) -> RunRequest:
    request = RunRequest(
        request="look at the project", repository=Repository(url=str(project), landing="none"), requested_by="tests"
    )
    return replace(request, task_type=task_type, **fields)


def tested(project: Path, seconds: float = 0.0) -> RunRequest:
    command = AcceptanceTest(name="check", cmd=f"python tools/check.py {seconds}", must_pass=True)
    return request_of(project, "TEST", acceptance_tests=(command,), environment=Environment(prefix=str(PREFIX)))


def reviewed(project: Path, head: str) -> RunRequest:
    git = GitRepository(project, project.parent / "home").git
    base, tip = (git("rev-parse", ref).decode().strip() for ref in ("main", head))
    return request_of(
        project, "REVIEW", baseline_ref=base, source_branch=SourceBranch(name=head, head=tip, base=base, commits=1)
    )


def planned(project: Path) -> RunRequest:
    return request_of(
        project,
        "PLAN",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="check", cmd="python tools/check.py 0", must_pass=True),),
        sharding=Sharding(count=2),
    )


def branch(project: Path, content: str, name: str = "topic") -> None:
    repository = GitRepository(project, project.parent / "home")
    repository.git("checkout", "-q", "-b", name)
    (project / "src/a.py").write_text(content)
    repository.git("commit", "-q", "-a", "-m", "a change")
    repository.git("checkout", "-q", "main")


def finished(stack: Stack, request: RunRequest) -> Run:
    with stack.client() as client:
        run = client.wait(client.submit_request(request), timeout=SECONDS)
    assert run.sealed is not None
    verified = stack.command("verify", run.sealed.location, "--repo", str(request.repository.url))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return run


def test_a_green_commit_is_tested_and_nothing_lands(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(src__a=b"edited = True\n", src__b=b"edited = True\n")
    before = GitRepository(project, project.parent / "home").git(*REFS)
    run = finished(stack, tested(project))
    assert (run.status, run.landed, run.kind.name, run.failure) == ("SUCCESS", None, "test", None)
    assert {task.role for task in run.tasks.values()} == {"pm", "testrunner"}
    assert GitRepository(project, project.parent / "home").git(*REFS) == before


def test_a_red_commit_fails_its_test_run(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, tested(make_project()))
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "tests_failed")


def test_a_review_shows_what_the_rules_find(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    branch(project, "a = 2\n")
    branch(project, "<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n", "broken")
    good, bad = finished(stack, reviewed(project, "topic")), finished(stack, reviewed(project, "broken"))
    assert (good.status, good.landed, good.kind.name) == ("SUCCESS", None, "review")
    assert bad.failure is not None
    assert bad.failure.code == "review_failed"
    assert bad.review is not None
    assert any(each.path == "src/a.py" and each.line == 1 for each in bad.review.findings)


def test_a_plan_ends_with_its_parts(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, planned(make_project()))
    assert (run.status, run.landed, run.kind.name, run.locks) == ("SUCCESS", None, "plan", None)
    assert run.plan is not None
    assert {path for part in run.plan.contracts for path in part.allowed_paths} == {"src/a.py", "src/b.py"}
    assert {task.role for task in run.tasks.values()} == {"pm", "techlead"}


DOCUMENT = b"The queue holds at most 512 messages for each consumer.\n"
QUESTION = "How many messages does the queue hold?"


def searched(project: Path, quote: str, offset: int) -> RunRequest:
    """A search whose findings come from outside, about one document."""
    sha256 = hashlib.sha256(DOCUMENT).hexdigest()
    source = EvidenceSource(name="s1", uri="document:queue.txt", sha256=sha256, text_sha256=sha256, media_type="text/plain")
    claim = EvidenceClaim(claim="512", sources=("s1",), quotes=(EvidenceQuote(source="s1", text=quote, offset=offset),))
    bundle = EvidenceBundle(
        bundle_id="b1",
        created_at="2026-01-02T03:04:05Z",
        requested_by="ada",
        query=QUESTION,
        sources=(source,),
        claims=(claim,),
        limitations=(),
    )
    given = {"findings": codec.encode(bundle), "document:queue.txt": DOCUMENT}
    artifacts = tuple(
        Artifact(name=name, uri=inline_uri(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in given.items()
    )
    executor = Executor(kind="reply", artifacts=("findings",))
    return replace(request_of(project, "SEARCH", executor=executor, artifacts=artifacts), request=QUESTION)


def test_a_search_ends_with_reviewed_findings(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, searched(make_project(), "holds at most 512 messages", 10))
    assert (run.status, run.landed, run.kind.name, run.failure) == ("SUCCESS", None, "search", None)
    assert {task.role for task in run.tasks.values()} == {"pm", "worker", "reviewer"}


def test_a_forged_quote_is_refused_before_review(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, searched(make_project(), "holds at most 9,999 messages", 10))
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "citation_not_found")
    assert run.review is None
