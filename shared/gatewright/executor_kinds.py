"""The kinds of executor: their needs, and their names for people. Everything that differs by kind is derived from this table.

``services/worker/executors`` implements the kinds. Their fields in a contract are those of ``Executor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gatewright.contracts.vocabulary import ExecutorName

#: The logs of a command or of an agent's program.
_OUTPUT: Mapping[str, str] = {"stdout": "results/{}/stdout.log", "stderr": "results/{}/stderr.log"}
_REPLY: Mapping[str, str] = {"reply": "results/{}/reply.txt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKind:
    """One way to make a change.

    ``answers``: the field of the contract with one entry for each attempt; "asked" if it is called for each attempt and has
    none. ``option``: the field of ``RunOptions`` that selects it. ``label``: its name in the form of the live page.
    ``sentence``: its description in the report. ``artifact``: the name of an answer that is an artifact, with ``{}`` for
    its number. ``splits``: whether several workers can each make a part. ``proposable``: whether the pm's model may propose
    it. ``kept_text``: the artifact that is stored unchanged, and scanned for secrets besides the files of the change.
    ``logs``: artifacts of its result with a place of their own in the bundle, ``{}`` for the task.
    """

    answers: Literal["commands", "artifacts", "asked"]
    option: str
    label: str
    sentence: str
    artifact: str = ""
    runs_commands: bool = False
    asks_models: bool = False
    splits: bool = False
    proposable: bool = False
    kept_text: Literal["", "patch", "reply"] = ""
    logs: Mapping[str, str] = field(default_factory=dict)

    @property
    def asked_anew(self) -> bool:
        """Return whether it is called again for each attempt."""
        return self.answers == "asked"


#: By the name in contracts.
EXECUTOR_KINDS: dict[ExecutorName, ExecutorKind] = {
    "command": ExecutorKind(
        answers="commands",
        option="commands",
        label="Commands",
        sentence="A command made the change, in the sandbox.",
        runs_commands=True,
        splits=True,
        proposable=True,
        logs=_OUTPUT,
    ),
    "patch": ExecutorKind(
        answers="artifacts",
        option="patch",
        label="A patch",
        sentence="The change was given as a patch; nothing was run to make it.",
        artifact="patch.diff",
        kept_text="patch",
    ),
    "reply": ExecutorKind(
        answers="artifacts",
        option="replies",
        label="A recorded reply",
        sentence="The change was given as the recorded reply of a model; whole files were taken from it.",
        artifact="reply-{}",
        kept_text="reply",
        logs=_REPLY,
    ),
    "agent": ExecutorKind(
        answers="asked",
        option="agent",
        label="A coding agent",
        sentence="A coding agent made the change, in the sandbox; its words are in codex/.",
        runs_commands=True,
        asks_models=True,
        splits=True,
        proposable=True,
        logs={
            **_OUTPUT,
            "codex_prompt": "codex/{}/prompt.md",
            "codex_events": "codex/{}/events.jsonl",
            "codex_transcript": "codex/{}/transcript.md",
            "codex_thread_id": "codex/{}/thread_id.txt",
        },
    ),
    "model": ExecutorKind(
        answers="asked",
        option="model",
        label="A model",
        sentence="A model was asked for the change; whole files were taken from its reply.",
        asks_models=True,
        splits=True,
        proposable=True,
        logs=_REPLY,
    ),
}


def asked_first() -> list[tuple[ExecutorName, ExecutorKind]]:
    """Return the kinds as offered to people: those that are called for an answer come first."""
    return sorted(EXECUTOR_KINDS.items(), key=lambda each: not each[1].asked_anew)


def place_of_log(name: str) -> str | None:
    """The place in the bundle of a log that an executor writes, with ``{}`` for the task; None for any other artifact."""
    return next((kind.logs[name] for kind in EXECUTOR_KINDS.values() if name in kind.logs), None)
