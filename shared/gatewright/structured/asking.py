"""Asks a model until its answer is usable, up to a maximum number of times; then refuses instead of guessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, Protocol

from gatewright.errors import Fault
from gatewright.structured.answers import P, StructuredOutputError, StructuredQuestion, judge_answer

#: Maximum number of attempts per answer.
ATTEMPTS = 3
#: Maximum number of faults, and characters of its own answer, that the model receives in a retry.
_MOST_FAULTS = 20
_MOST_SHOWN = 20_000


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation after the system prompt."""

    speaker: Literal["user", "model"]
    text: str


class ModelAnswer(NamedTuple):
    """A model's answer; ``cut_off`` is why it ended early, empty for a complete one."""

    text: str
    cut_off: str = ""


class Speaker(Protocol):
    """A model that answers."""

    async def answer(self, system: str, turns: Sequence[Turn]) -> ModelAnswer:
        """Return its answer. Raises GatewrightError."""


@dataclass
class Asking(Generic[P]):
    """One question with all its answers so far."""

    question: StructuredQuestion[P]
    answers: list[str] = field(default_factory=list)

    async def ask(self, speaker: Speaker, attempts: int = ATTEMPTS) -> P:
        """Return the first usable answer.

        Raises:
            StructuredOutputError: no answer was usable after ``attempts``. Errors of ``speaker`` pass through.
        """
        # Checked first: a question without a schema is invalid.
        schema = self.question.schema
        prompt = self.question.prompt
        turns = [Turn("user", prompt.order)]
        faults: tuple[Fault, ...] = ()
        for _ in range(attempts):
            text, cut_off = await speaker.answer(prompt.system, turns)
            self.answers.append(text)
            document, faults = await judge_answer(text, self.question)
            if cut_off:
                # A truncated answer is incomplete, even if it happens to be a valid document.
                faults = (Fault("", "answer_cut_off", f"the answer ended early ({cut_off}); write a shorter one"),)
            elif document is not None:
                return document
            turns = [Turn("user", prompt.order), Turn("model", text[:_MOST_SHOWN] or "(nothing)"), Turn("user", _again(faults))]
        raise StructuredOutputError(
            f"no valid {schema} in {attempts} answers: {_fault_words(faults[0])}", faults=faults[:_MOST_FAULTS]
        )


def _again(faults: Sequence[Fault]) -> str:
    listed = "\n".join(f"- {_fault_words(fault)}" for fault in faults[:_MOST_FAULTS])
    return f"That answer cannot be used:\n{listed}\n\nAnswer again: one JSON document under the same schema, and nothing else."


def _fault_words(fault: Fault) -> str:
    return f"{fault.pointer or '/'}: {fault.message}"
