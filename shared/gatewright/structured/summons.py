"""Answers questions about a run beside a role's own tasks, by the role's model, from the question's content alone.

The role reads no repository for it and writes nothing. A role without a model answers with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from gatewright.clock import timestamp
from gatewright.contracts import CriticOpinion, Error, QaOpinion, SummonsAnswer, SummonsOpinion, SummonsTask
from gatewright.contracts.consultation import Clamp
from gatewright.contracts.people.summons import CriticFinding, Critique, MissedCase, SummonsRole
from gatewright.contracts.proposals import Observation
from gatewright.contracts.vocabulary import Document
from gatewright.git.patches.lines import shown_lines
from gatewright.git.paths import path_fault
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.orders import MAX_PATCH, summons_order
from gatewright.rules.summons import CHANGE, NO_MODEL
from gatewright.service.settings import ServiceSettings
from gatewright.structured.answers import UNANSWERED, P, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.structured.recording import consultation_of, failure_of
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext, TaskHandler

_NOT_THERE: Final = "line_not_there"
_NO_PATH: Final = "bad_path"

S = TypeVar("S", bound=ServiceSettings)


def summons_handlers(
    role: SummonsRole,
    make_handler: Callable[[S], TaskHandler[Any]],
    agent_of: Callable[[S], str],
    sockets: Callable[[S], Path] | None = None,
) -> Callable[[S], TaskHandler[Any]]:
    """Return a factory of handlers for a role that answers questions beside its tasks.

    Args:
        role: the role.
        make_handler: factory of the role's own handler.
        agent_of: returns the agent id of answers.
        sockets: returns the folder for the socket of its model gateway.
    """

    def make(settings: S) -> TaskHandler[Any]:
        place = sockets(settings) if sockets is not None else None
        models = RoleModels.of(role, settings, sockets=place)
        consulting = SummonsConsultant(role, agent_of(settings), models, PromptLibrary(settings.prompts))
        return SummonedHandler(make_handler(settings), consulting)

    return make


class SummonedHandler:
    """A role's handler combined with answers to questions."""

    def __init__(self, tasks: TaskHandler[Any], consulting: SummonsConsultant) -> None:
        self._tasks = tasks
        self._consulting = consulting

    async def handle(self, task: Document, context: TaskContext) -> Document:
        """Handle a task or a question. Errors of the role's own handler and of the model gateway pass through."""
        if isinstance(task, SummonsTask):
            return await self._consulting.answer(task, context)
        return await self._tasks.handle(task, context)


class SummonsConsultant:
    """Answers questions for ``role``, as ``agent_id``. Keeps no state between questions."""

    def __init__(self, role: SummonsRole, agent_id: str, models: RoleModels, library: PromptLibrary) -> None:
        self._role: SummonsRole = role
        self._agent_id = agent_id
        self._models = models
        self._library = library

    async def answer(self, task: SummonsTask, context: TaskContext) -> SummonsAnswer | Error:
        """Return the model's answer, or an error without one. Errors of the model gateway, and ArtifactError, pass through."""
        if not self._models.configured:
            words = (
                f"the {self._role} has no model to ask: name the role in GATEWRIGHT_CONSULT, and give it a route and its key"
            )
            return self._make_answer(task, context, status="NOT_ANSWERED", code=NO_MODEL, message=words)
        patch = await self._read_change(task, context)
        if task.advice is not None and patch is not None and len(patch) > MAX_PATCH:
            words = f"the change has {len(patch)} bytes; a model is shown at most {MAX_PATCH}"
            return self._make_answer(task, context, status="NOT_ANSWERED", code="task_failed", message=words)
        prompt = summons_order(self._library, task, patch)
        if task.advice is None:
            return await self._ask(task, context, StructuredQuestion(prompt, SummonsOpinion), partial(opinion_fields, patch))
        if task.advice == "qa":
            return await self._ask(task, context, StructuredQuestion(prompt, QaOpinion), partial(missed_fields, patch))
        return await self._ask(task, context, StructuredQuestion(prompt, CriticOpinion), partial(critique_fields, patch))

    async def _ask(
        self, task: SummonsTask, context: TaskContext, question: StructuredQuestion[P], fields_of: Callable[[P], Fields]
    ) -> SummonsAnswer | Error:
        asking = Asking(question)
        async with self._models.session(task.budget, context, task.run_id, task.task_id, task.transfer) as session:
            try:
                opinion = await asking.ask(session)
            except UNANSWERED as error:
                return await failure_of(asking, error, session.spent, context.artifacts)
        fields, dropped = fields_of(opinion)
        context.log.info("summons_answered", model=session.spent.model, asked=len(asking.answers), dropped=len(dropped))
        record = await consultation_of(asking, opinion, session.spent, context.artifacts, clamped=dropped)
        return self._make_answer(task, context, status="ANSWERED", code="ok", consultation=record, **fields)

    async def _read_change(self, task: SummonsTask, context: TaskContext) -> bytes | None:
        found = next((each for each in task.evidence if each.name == CHANGE), None)
        return await context.artifacts.get(found.uri) if found is not None else None

    def _make_answer(self, task: SummonsTask, context: TaskContext, **fields: Any) -> SummonsAnswer:
        return SummonsAnswer(
            run_id=task.run_id,
            task_id=task.task_id,
            role=self._role,
            answered_at=timestamp(context.clock.now()),
            agent_id=self._agent_id,
            **fields,
        )


#: Fields of an answer, and what the model named that the change does not have.
Fields = tuple[dict[str, Any], tuple[Clamp, ...]]
_Place = TypeVar("_Place", Observation, CriticFinding, MissedCase)


def opinion_fields(patch: bytes | None, opinion: SummonsOpinion) -> Fields:
    """Return the fields of an answer in words, without places that the change does not have."""
    kept, dropped = anchored_places(opinion.evidence, patch, lambda each: each.note)
    fields = {
        "answer": opinion.answer,
        "confidence": opinion.confidence,
        "evidence": kept,
        "open_questions": opinion.open_questions,
    }
    return fields, dropped


def critique_fields(patch: bytes | None, opinion: CriticOpinion) -> Fields:
    """Return the fields of a critic's answer, without findings at places that the change does not have."""
    kept, dropped = anchored_places(opinion.findings, patch, lambda each: each.message)
    return {"answer": opinion.summary, "critique": Critique(recommendation=opinion.recommendation, findings=kept)}, dropped


def missed_fields(patch: bytes | None, opinion: QaOpinion) -> Fields:
    """Return the fields of a tester's answer, without cases at places that the change does not have, or with unusable tests."""
    anchored, dropped = anchored_places(opinion.missed, patch, lambda each: each.case)
    kept = tuple(each for each in anchored if each.test is None or path_fault(each.test.path.encode()) is None)
    unusable = (each.test.path for each in anchored if each not in kept and each.test is not None)
    paths = tuple(Clamp(field="missed", proposed=path, granted="", reason=_NO_PATH) for path in unusable)
    return {"answer": opinion.summary, "missed": kept}, (*dropped, *paths)


def anchored_places(
    places: Iterable[_Place], patch: bytes | None, words_of: Callable[[_Place], str]
) -> tuple[tuple[_Place, ...], tuple[Clamp, ...]]:
    """Return the places that the change contains, and the dropped ones: only the change has lines."""
    lines = shown_lines(patch) if patch is not None else {}
    kept: list[_Place] = []
    dropped: list[Clamp] = []
    for each in places:
        if each.path is None or (each.path in lines and (each.line is None or each.line in lines[each.path])):
            kept.append(each)
        else:
            place = f"{each.path}:{each.line or '-'} {words_of(each)}"
            dropped.append(Clamp(field="evidence", proposed=place, granted="", reason=_NOT_THERE))
    return tuple(kept), tuple(dropped)
