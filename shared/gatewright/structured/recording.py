"""Records of a question as artifacts: the prompt, every answer, the call records, and the proposed document."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gatewright.artifacts import ArtifactPort
from gatewright.contracts import Blocked, Error, codec
from gatewright.contracts.consultation import Clamp, Consultation
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import DeniedError, GatewrightError
from gatewright.models.cassettes import SUFFIX, CassetteWriter
from gatewright.models.records import CALLS_PART
from gatewright.rules.reports.artifacts import ANSWER
from gatewright.secrets import SecretScanner
from gatewright.structured.answers import P, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.tasks.inputs import reference

#: The artifact with the recorded model traffic of a question.
CASSETTE_PART = f"calls{SUFFIX}"


@dataclass(frozen=True, slots=True)
class ConsultationCost:
    """Usage of the calls as counted by the gateway; ``records`` are its call records, as JSON lines, and ``recording`` is the
    recorded traffic.
    """

    model: str
    tokens: int
    cost_usd: float
    records: bytes
    recording: CassetteWriter = field(default_factory=CassetteWriter)
    unpriced: bool = False
    incomplete: bool = False


async def consultation_of(
    asking: Asking[P],
    proposed: P | None,
    spent: ConsultationCost,
    artifacts: ArtifactPort,
    *,
    clamped: Sequence[Clamp] = (),
    blocked: Sequence[Blocked] = (),
    more: Iterable[tuple[str, bytes]] = (),
) -> Consultation:
    """Return the record of ``asking`` with its parts stored. ``proposed`` is None without a usable answer.

    Raises:
        BusError: a part cannot be stored.
    """
    question: StructuredQuestion[P] = asking.question
    parts: list[tuple[str, bytes]] = [("prompt.json", question.prompt.encode())]
    parts += [(f"{ANSWER}{n}.txt", text.encode("utf-8", "replace")) for n, text in enumerate(asking.answers, 1)]
    parts += [("proposed.json", codec.encode(proposed))] if proposed is not None else []
    if spent.records:
        cassette = await asyncio.to_thread(spent.recording.as_jsonl, SecretScanner())
        parts += [(CALLS_PART, spent.records), (CASSETTE_PART, cassette)]
    stored = [await _store_artifact(name, data, artifacts) for name, data in (*parts, *more)]
    return Consultation(
        model=spent.model,
        answer_schema=question.schema,
        answer_schema_sha256=question.schema_sha256,
        prompts=dict(question.prompt.digests),
        directive=question.prompt.directive,
        asked=max(1, len(asking.answers)),
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
        artifacts=tuple(stored),
        clamped=tuple(clamped),
        blocked=tuple(blocked),
        unpriced=spent.unpriced,
        incomplete=spent.incomplete,
    )


async def failure_of(asking: Asking[P], error: GatewrightError, spent: ConsultationCost, artifacts: ArtifactPort) -> Error:
    """Return a role's answer after an unanswered question: the reason, and the record of the question.

    Raises:
        BusError: a part cannot be stored.
    """
    record = await consultation_of(asking, None, spent, artifacts)
    found = error.faults if isinstance(error, DeniedError) else ()
    faults = tuple(ErrorFault(pointer=each.pointer, code=each.code, message=each.message) for each in found)
    return Error(code=error.reason, message=error.message, faults=faults, family=error.family, consultation=record)


async def _store_artifact(name: str, data: bytes, artifacts: ArtifactPort) -> Artifact:
    await artifacts.put(data)
    return reference(name, data)
