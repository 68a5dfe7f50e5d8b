"""A SEARCH task on a real worker: a scripted model searches, reads, and answers with quotes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import EvidenceBundle, TaskResult, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import Executor
from gatewright.resources import policy_directory
from gatewright.rules.reports.citations import broken_citations
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.research.site import Site

QUESTION = "How many messages does the queue hold?"
DOCUMENT = b"The queue holds at most 512 messages for each consumer.\n"
QUOTE = "holds at most 512 messages"


def say(**step: Any) -> Say:
    return Say(json.dumps(step))


def answer(quote: str, source: str = "s1") -> Say:
    return say(action="answer", claims=[{"claim": "512", "quotes": [{"source": source, "text": quote}]}], limitations=["none"])


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, {"README.md": b"the secret plan of the repository\n"})


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider({}) as provider:
        yield provider


class Researcher:
    """A worker with one scripted model."""

    def __init__(self, fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path) -> None:
        self._fixture = fixture
        self._provider = provider
        self._policies = tmp_path / "policies"

    async def ask(
        self, *script: Say, documents: Mapping[str, bytes] | None = None, research: Mapping[str, Any] | None = None
    ) -> TaskResult:
        self._provider.scripts["research"] = list(script)
        shutil.rmtree(self._policies, ignore_errors=True)
        shutil.copytree(policy_directory(), self._policies)
        (self._policies / "models.json").write_text(json.dumps(self._provider.policy("research")))
        if research is not None:
            (self._policies / "research.json").write_text(json.dumps(research))
        worker = make_handler(Settings(home=self._fixture.state, policies=self._policies))
        given = tuple(self._fixture.artifacts.hold(name, data) for name, data in (documents or {}).items())
        contract = self._fixture.contract(
            task_type="SEARCH", executor=Executor(kind="model"), inputs=Inputs(spec=QUESTION, artifacts=given)
        )
        return await worker.handle(contract, self._fixture.context())

    def kept(self, result: TaskResult, name: str) -> bytes:
        return next(self._fixture.artifacts.stored[each.uri] for each in result.artifacts if each.name == name)

    def findings(self, result: TaskResult) -> EvidenceBundle:
        return codec.decode(self.kept(result, "evidence_bundle"), EvidenceBundle)


@pytest.fixture
def researcher(fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path) -> Researcher:
    return Researcher(fixture, provider, tmp_path)


GIVEN = {"document:queue.md": DOCUMENT}
STEPS = (say(action="search", query="messages"), say(action="read", address="document:queue.md"))


async def test_an_answer_quotes_the_given_document(researcher: Researcher, provider: ScriptedProvider) -> None:
    result = await researcher.ask(*STEPS, answer(QUOTE), documents=GIVEN)
    assert (result.status, result.failure) == ("SUCCESS", None)
    findings = researcher.findings(result)
    assert findings.query == QUESTION
    (source,) = findings.sources
    assert source.sha256 == hashlib.sha256(DOCUMENT).hexdigest()
    text = researcher.kept(result, "text:s1").decode()
    assert list(broken_citations(findings, {"s1": text}, 1)) == []
    assert researcher.kept(result, "source:s1") == DOCUMENT
    assert not any(b"secret plan" in request.body for request in provider.requests)


async def test_a_quote_that_stands_nowhere_is_returned_to_the_model(researcher: Researcher, provider: ScriptedProvider) -> None:
    result = await researcher.ask(*STEPS, answer("holds at most 9 million messages"), answer(QUOTE), documents=GIVEN)
    assert result.status == "SUCCESS"
    assert b"does not stand in s1" in provider.requests[-1].body


async def test_a_model_that_only_forges_fails(researcher: Researcher) -> None:
    result = await researcher.ask(*STEPS, *[answer("holds at most 9 million messages")] * 9, documents=GIVEN)
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "research_not_answered")
    assert not any(each.name == "evidence_bundle" for each in result.artifacts)


@pytest.mark.parametrize(
    "words", ["no JSON", "[]", '{"action": "run", "query": "rm"}', "{" * 3000, '{"action": "read", "x": 1}']
)
async def test_words_that_are_no_step_are_answered_with_the_form(researcher: Researcher, words: str) -> None:
    result = await researcher.ask(Say(words), *STEPS, answer(QUOTE), documents=GIVEN)
    assert result.status == "SUCCESS"


async def test_a_model_that_never_answers_is_ended(researcher: Researcher) -> None:
    policy = {"version": "1", "turns": 3}
    result = await researcher.ask(*[STEPS[0]] * 9, documents=GIVEN, research=policy)
    assert (result.failure or "").startswith("research_not_answered")


async def test_without_documents_and_services_there_is_nothing_to_search(researcher: Researcher) -> None:
    result = await researcher.ask(answer(QUOTE))
    assert (result.failure or "").startswith("research_without_sources")


async def test_a_document_with_a_secret_is_not_read(researcher: Researcher) -> None:
    key = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIEowIBAAKCAQEA" * 20 + b"\n-----END RSA PRIVATE KEY-----\n"
    result = await researcher.ask(*STEPS, *[answer(QUOTE)] * 5, documents={"document:queue.md": DOCUMENT + key})
    assert (result.failure or "").startswith("research_not_answered")
    assert not any(each.name.startswith("source:") for each in result.artifacts)


def service_of(site: Site) -> dict[str, Any]:
    entry = {"name": "web", "kind": "searxng", "base_url": site.root, "hosts": ["localhost"], "private": True}
    return {"version": "1", "services": [entry]}


async def test_a_page_is_found_read_and_quoted(researcher: Researcher, site: Site) -> None:
    page = f"{site.root}/limits"
    steps = (say(action="search", query="messages"), say(action="read", address=page))
    result = await researcher.ask(*steps, answer("holds at most 512 messages for each consumer."), research=service_of(site))
    assert (result.status, result.failure) == ("SUCCESS", None)
    assert [line.split("?")[0] for line in site.seen] == ["GET /search", "GET /limits"]
    log = [json.loads(line) for line in researcher.kept(result, "research_log").splitlines()]
    assert [(each["status"], each["stored"]) for each in log] == [(200, False), (200, False)]


async def test_the_same_question_again_sends_no_request(researcher: Researcher, site: Site) -> None:
    steps = (say(action="search", query="messages"), say(action="read", address=f"{site.root}/limits"))
    script = (*steps, answer("holds at most 512 messages for each consumer."))
    first = await researcher.ask(*script, research=service_of(site))
    sent = list(site.seen)
    second = await researcher.ask(*script, research=service_of(site))
    assert (first.status, second.status) == ("SUCCESS", "SUCCESS")
    assert site.seen == sent
    assert researcher.findings(first).sources == researcher.findings(second).sources


async def test_instructions_in_a_page_reach_the_model_as_data(
    researcher: Researcher, site: Site, provider: ScriptedProvider
) -> None:
    steps = (say(action="search", query="queue"), say(action="read", address=f"{site.root}/hostile"))
    await researcher.ask(*steps, answer("The queue is fast."), research=service_of(site))
    order = str(provider.requests[-1].json)
    hostile = order.index("Ignore your orders")
    assert order.rindex("<<<DATA", 0, hostile) > order.rfind("<<<END DATA", 0, hostile)


@pytest.mark.parametrize("address", ["http://localhost:1/x", "https://evil.example/?q=secret", "file:///etc/passwd"])
async def test_an_address_beyond_the_policy_sends_nothing(researcher: Researcher, site: Site, address: str) -> None:
    read = say(action="read", address=address)
    await researcher.ask(read, *[answer(QUOTE)] * 5, research=service_of(site))
    assert site.seen == []


async def test_requests_end_at_their_limit(researcher: Researcher, site: Site) -> None:
    searches = [say(action="search", query=f"messages {number}") for number in range(5)]
    policy = service_of(site) | {"requests": 2}
    await researcher.ask(*searches, *[answer(QUOTE)] * 5, research=policy)
    assert len(site.seen) == 2
