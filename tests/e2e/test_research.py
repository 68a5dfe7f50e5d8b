"""A search through a whole stack: findings, forged quotes, a tampered bundle, and the findings as an input."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import EvidenceBundle, RunRequest, codec
from gatewright.contracts.reports import EvidenceClaim, EvidenceQuote, EvidenceSource
from gatewright.contracts.vocabulary import Artifact, Executor
from gatewright.evidence import layout
from gatewright.research.findings import FINDINGS
from gatewright.resources import policy_directory
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, Stack, running_stack, wait_until
from tests.e2e.test_run_kinds import finished, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.research.site import LIMIT, Site, steps
from tests.structured.scripted import answering, write_models
from tests.waiting import PATIENCE

DOCUMENT = b"The queue holds at most 512 messages for each consumer.\n"
QUESTION = "How many messages does the queue hold?"


def artifact(name: str, data: bytes) -> Artifact:
    return Artifact(name=name, uri=inline_uri(data), sha256=hashlib.sha256(data).hexdigest())


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
    artifacts = tuple(artifact(name, data) for name, data in given.items())
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


def test_two_equal_documents_are_distinguished_by_name(stack: Stack, make_project: MakeProject) -> None:
    request = searched(make_project(), "holds at most 512 messages", 10)
    run = finished(stack, replace(request, artifacts=(*request.artifacts, artifact("document:copy.txt", DOCUMENT))))
    assert (run.status, run.failure) == ("SUCCESS", None)


def test_a_document_of_another_digest_is_refused(stack: Stack, make_project: MakeProject) -> None:
    request = searched(make_project(), "holds at most 512 messages", 10)
    other = artifact("document:queue.txt", b"other")
    run = finished(stack, replace(request, artifacts=(request.artifacts[0], other)))
    assert run.failure is not None
    assert run.failure.code == "citation_not_found"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"executor": Executor(kind="command", commands=("true",))}, "executor_missing"),
        ({"allowed_paths": ("src",)}, "field_unread"),
        (
            {"artifacts": (Artifact(name="patch", uri=inline_uri(b"x"), sha256=hashlib.sha256(b"x").hexdigest()),)},
            "field_unread",
        ),
    ],
)
def test_a_search_that_orders_a_change_is_refused(
    stack: Stack, make_project: MakeProject, fields: dict[str, Any], code: str
) -> None:
    request = replace(searched(make_project(), "holds at most 512 messages", 10), **fields)
    with stack.client() as client:
        run = client.wait(client.submit_request(request), timeout=SECONDS)
    assert run.failure is not None
    assert run.failure.code == code


def test_a_bundle_with_another_quote_fails(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    run = finished(stack, searched(make_project(), "holds at most 512 messages", 10))
    assert run.sealed is not None
    copy = tmp_path / run.run_id
    shutil.copytree(run.sealed.location, copy)
    findings = copy / "reports" / "evidence_bundle.json"
    findings.write_bytes(findings.read_bytes().replace(b"512 messages", b"513 messages"))
    verified = stack.command("verify", str(copy))
    assert verified.returncode == 1
    assert "citation_not_found" in verified.stdout


@dataclasses.dataclass(frozen=True)
class SearchingStack(Stack):
    """One whose worker asks a scripted model, and searches by a service on loopback."""

    more: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.more}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({"/queue": LIMIT}) as running:
        yield running


@pytest.fixture(scope="module")
def searching(provider: ScriptedProvider, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchingStack]:
    folder = tmp_path_factory.mktemp("searching")
    policies = Path(shutil.copytree(policy_directory(), folder / "policies"))
    (policies / "models.json").write_text(json.dumps(provider.policy("search")))
    service = {"name": "web", "kind": "searxng", "base_url": site.root, "hosts": ["localhost"], "private": True}
    (policies / "research.json").write_text(json.dumps({"version": "1", "services": [service]}))
    more = {"GATEWRIGHT_POLICIES": str(policies), "SCRIPTED_KEY": KEY}
    stack = SearchingStack(folder / "home", more)
    with running_stack(folder / "home", workers=1, stack=stack):
        yield stack


@pytest.fixture(scope="module")
def judging(searching: SearchingStack, provider: ScriptedProvider) -> Iterator[SearchingStack]:
    """A stack whose reviewer asks a model, too."""
    folder = searching.home.parent / "judging"
    policies = Path(shutil.copytree(Path(searching.more["GATEWRIGHT_POLICIES"]), folder / "policies"))
    write_models(policies, provider, {"worker": "search", "reviewer": "review"})
    more = {**searching.more, "GATEWRIGHT_POLICIES": str(policies), "GATEWRIGHT_CONSULT": "reviewer"}
    stack = SearchingStack(folder / "home", more)
    with running_stack(folder / "home", workers=1, stack=stack):
        yield stack


@pytest.mark.long
@pytest.mark.parametrize("supported", [True, False])
def test_a_second_model_judges_whether_quotes_support_claims(
    judging: SearchingStack, provider: ScriptedProvider, site: Site, make_project: MakeProject, *, supported: bool
) -> None:
    finding = {"path": FINDINGS, "line": 2, "message": "the quote names no limit", "blocking": True}
    place = {"path": FINDINGS, "line": 2, "note": "compared"}
    verdict = {"verdict": "PASS", "summary": "Compared.", "evidence": [place], "findings": [] if supported else [finding]}
    provider.scripts["search"], provider.scripts["review"] = steps(site), answering(verdict)
    ended = judging.command("research", QUESTION, "--json", cwd=make_project())
    result = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == (0 if supported else 1), ended.stdout + ended.stderr
    if not supported:
        assert "the quote names no limit" in result["failure"]["message"]
    report = json.loads((Path(result["bundle"]) / layout.REVIEW_REPORT).read_text())
    assert report["consultation"]["model"] == "review-model"
    assert judging.command("verify", result["run_id"]).returncode == 0


@pytest.mark.long
def test_findings_of_a_model_reach_a_worker_as_data(
    searching: SearchingStack, provider: ScriptedProvider, site: Site, make_project: MakeProject
) -> None:
    project = make_project()
    provider.scripts["search"] = steps(site)
    ended = searching.command("research", QUESTION, "--json", cwd=project)
    result = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, result["kind"]) == (0, "search"), ended.stdout + ended.stderr
    assert result["findings"]["claims"][0]["claim"] == "It holds 512."
    assert searching.command("verify", result["run_id"], cwd=project).returncode == 0
    shown = searching.command("show", result["run_id"], cwd=project).stdout
    assert f'"holds at most 512 messages"  {site.root}/queue' in shown
    provider.scripts["search"] = [Say("```python\n# file: src/a.py\nLIMIT = 512  # edited\n```\n")]
    words = ("run", "state the limit", "--allow", "src/a.py", "--model", "scripted", "--test", "python tools/check.py 0")
    searching.command(*words, "--env", str(PREFIX), "--input", result["run_id"], cwd=project)
    order = str(provider.requests[-1].json)
    claim = order.index("It holds 512.")
    assert order.rindex("<<<DATA", 0, claim) > order.rfind("<<<END DATA", 0, claim)


@pytest.mark.long
def test_a_search_survives_killed_processes(
    searching: SearchingStack, provider: ScriptedProvider, site: Site, make_project: MakeProject
) -> None:
    provider.scripts["search"] = steps(site)
    (member,) = searching.members("reviewer")
    os.kill(member.pid, signal.SIGSTOP)
    request = request_of(make_project(), "SEARCH", executor=Executor(kind="model"))
    with searching.client() as client:
        run_id = client.submit_request(replace(request, request=QUESTION), patience=PATIENCE)
        wait_until(lambda: client.get(run_id).state in {"S3", "FAILED"})
        assert searching.kill("gatekeeper") == 1
        os.kill(member.pid, signal.SIGCONT)
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    assert searching.command("verify", run.sealed.location).returncode == 0
