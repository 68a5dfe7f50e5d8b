"""A search through a whole stack: findings, forged quotes, a tampered bundle, and the findings as an input."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import EvidenceBundle, RunRequest, codec
from gatewright.contracts.reports import EvidenceClaim, EvidenceQuote, EvidenceSource
from gatewright.contracts.vocabulary import Artifact, Executor
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.e2e.test_run_kinds import finished, request_of

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
