"""Requirements on a model's answer before it is used (specification 6.1.3, 6.2.1).

1. Not too large.
2. One JSON document and nothing else.
3. Valid under the schema of the question.
4. For this order.
5. Consistent, by the caller's own rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gatewright.contracts import ContractProposal, CriticOpinion, PlanProposal, QaOpinion, ReviewOpinion, SummonsOpinion, codec
from gatewright.errors import DeniedError, Fault, GatewrightError, MalformedError
from gatewright.prompts.prompt import Prompt
from gatewright.resources import schema_directory


class StructuredOutputError(DeniedError):
    """The model gave no valid answer within the maximum number of attempts. Name another model for the role."""

    code = "structured_output_invalid"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message, faults=faults)


class ModelCallError(GatewrightError):
    """A model call failed after all retries of the gateway. The reason code is the gateway's; the message has details."""

    code = "model_unavailable"


#: Errors of an unanswered question, which is recorded anyway. An exhausted budget ends the run instead.
UNANSWERED = (StructuredOutputError, ModelCallError)


#: Maximum bytes of an answer; a larger one is not parsed.
MAX_BYTES = 256 * 1024
#: The only documents that a model may be asked for: each has a schema and a marker to repeat.
Proposal = ContractProposal | PlanProposal | ReviewOpinion | SummonsOpinion | CriticOpinion | QaOpinion
BINDINGS: tuple[type[Proposal], ...] = (ContractProposal, PlanProposal, ReviewOpinion, SummonsOpinion, CriticOpinion, QaOpinion)

P = TypeVar("P", ContractProposal, PlanProposal, ReviewOpinion, SummonsOpinion, CriticOpinion, QaOpinion)


async def _no_rules(_: object) -> Sequence[Fault]:
    return ()


@dataclass(frozen=True)
class StructuredQuestion(Generic[P]):
    """A prompt with the kind of document that answers it; ``rules`` returns the faults of a valid one."""

    prompt: Prompt
    kind: type[P]
    rules: Callable[[P], Awaitable[Sequence[Fault]]] = field(default=_no_rules)

    @property
    def schema(self) -> str:
        """Name of the schema. Raises StructuredOutputError for a kind without one, which is never asked for."""
        if self.kind not in BINDINGS:
            raise StructuredOutputError(f"{self.kind.__name__} is bound to no schema of a model's answer")
        return codec.schema_name(self.kind)

    @property
    def schema_sha256(self) -> str:
        """Digest of the schema's file."""
        return hashlib.sha256((schema_directory() / f"{self.schema}.json").read_bytes()).hexdigest()


async def judge_answer(text: str, question: StructuredQuestion[P]) -> tuple[P | None, tuple[Fault, ...]]:
    """Return the document in an answer, or its faults."""
    try:
        data = text.strip().encode()
    except UnicodeEncodeError:
        return None, (Fault("", "not_json", "not UTF-8"),)
    if len(data) > MAX_BYTES:  # 1
        return None, (Fault("", "answer_too_large", f"{len(data)} bytes; at most {MAX_BYTES} are read"),)
    if not (data.startswith(b"{") and data.endswith(b"}")):  # 2
        return None, (Fault("", "not_json", "one JSON object and nothing else: no words around it, no code fence"),)
    try:
        document = codec.decode(data, question.kind)  # 2, 3
    except MalformedError as error:
        return None, error.faults
    if document.directive_ack != question.prompt.directive:  # 4
        return None, (Fault("/directive_ack", "directive_mismatch", f"must be {question.prompt.directive}"),)
    faults = tuple(await question.rules(document))  # 5
    return (None, faults) if faults else (document, ())
