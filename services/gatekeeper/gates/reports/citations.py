"""The citations gate: the findings of a search count only if each quote stands in the stored text of its source."""

from __future__ import annotations

from gatewright.artifacts import stored_uri
from gatewright.contracts import EvidenceBundle, TaskContract, TaskResult, codec
from gatewright.contracts.reports import EvidenceSource
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.research.documents import PREFIX
from gatewright.research.findings import FINDINGS, content_name, is_finding, text_name
from gatewright.rules.reports.citations import NOT_FOUND, RULE, broken_citations
from gatewright.services.gatekeeper.gates.context import GateContext

#: Bytes of all texts that one judgement reads.
_MOST_TEXT = 128 << 20


async def judge_citations(context: GateContext, contract: TaskContract, result: TaskResult) -> None:
    """Judge the findings of a search.

    1. The result has the findings, and they answer the question of the contract.
    2. Each source is stored with its text. A given document has the digest of the contract.
    3. The rules of ``gatewright.rules.reports.citations`` hold.

    Raises:
        ArtifactError: the store cannot be read.
        MalformedError: the findings are no evidence bundle.
    """
    report, artifacts = context.report, context.artifacts
    report.checked(RULE)
    named = {each.name: each for each in result.artifacts if is_finding(each.name)}
    for each in named.values():
        report.saw(each.name, each.sha256)
    if FINDINGS not in named:  # 1
        report.violate(NOT_FOUND, RULE, "the result has no findings")
        return
    bundle = codec.decode(await artifacts.get_artifact(named[FINDINGS].uri), EvidenceBundle)
    if bundle.query != contract.inputs.spec:
        report.violate(NOT_FOUND, RULE, "the findings answer another question")
    texts: dict[str, str] = {}
    left = _MOST_TEXT
    for source in bundle.sources:  # 2
        if why := _fault_of_source(source, named, contract):
            report.violate(NOT_FOUND, RULE, why)
            continue
        text = await artifacts.get_artifact(stored_uri(source.text_sha256 or ""))
        left -= len(text)
        if left < 0:
            raise MalformedError(f"the sources have more than {_MOST_TEXT} bytes of text", code="judgement_limit")
        texts[source.name] = text.decode("utf-8", "replace")
    for broken in broken_citations(bundle, texts, context.policies.research.independent_hosts):  # 3
        report.violate(*broken)


def _fault_of_source(source: EvidenceSource, named: dict[str, Artifact], contract: TaskContract) -> str:
    """Return why a source is not stored as the findings describe it; empty if it is."""
    content, text = named.get(content_name(source)), named.get(text_name(source))
    if content is None or text is None or (content.sha256, text.sha256) != (source.sha256, source.text_sha256):
        return f"source {source.name[:80]!r} is not stored with its text"
    if source.uri.startswith(PREFIX):
        given = [each.sha256 for each in contract.inputs.artifacts if each.name == source.uri]
        if given != [source.sha256]:
            return f"source {source.name[:80]!r} is no document of the contract"
    return ""
