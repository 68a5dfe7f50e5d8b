"""Builds a worker's prompt from its contract, the remains of the previous attempt, and comments of people.

Text of the repository, of people and of earlier attempts is fenced. A recorded run is replayed with the prompt version that it
was recorded with (``recorded_brief.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gatewright.artifacts import RESULT, ArtifactPort
from gatewright.contracts import CanonicalMemory, TaskContract
from gatewright.git.paths import display
from gatewright.prompts.library import PromptLibrary, ReplyForm
from gatewright.prompts.prompt import Prompt, fence_text
from gatewright.prompts.worker_brief import BRIEF, PreviousAttempt, RepositoryAccess, WorkerBrief, worker_prompt
from gatewright.rules.rounds import PEOPLE_OBJECTIVE, REVIEW_OBJECTIVE
from gatewright.services.worker.agents.earlier import EarlierRound
from gatewright.services.worker.agents.recorded_brief import recorded_brief, recorded_out_of_scope

_PATHS: Final = 50
#: Characters of the previous attempt's patch that an order holds.
_PATCH: Final = 60_000
#: Objectives that documents of a run name in other words.
_OBJECTIVES: Final = {
    REVIEW_OBJECTIVE: "Fix what the reviewer found.",
    PEOPLE_OBJECTIVE: "Fix what the people found who refused it.",
}


def brief(
    library: PromptLibrary,
    contract: TaskContract,
    earlier: EarlierRound | None,
    form: ReplyForm = "workspace",
    *,
    version: int = BRIEF,
    access: RepositoryAccess | None = None,
    data: Sequence[str] = (),
    memory: CanonicalMemory | None = None,
    asks: bool = False,
) -> Prompt:
    """The whole prompt, for an agent (``workspace``) or a model (``files``). See ``WorkerBrief``. Raises PromptsError.

    ``earlier`` is the previous attempt, None for the first. ``version`` is that of the recording that is played.
    """
    access = access or RepositoryAccess()
    if version == 1:
        return recorded_brief(library, contract, earlier, form, directory=access.directory, data=data, memory=memory, asks=asks)
    previous = None
    if earlier is not None:
        previous = PreviousAttempt(_OBJECTIVES.get(earlier.objective, earlier.objective), earlier.kept)
    order = WorkerBrief(
        contract=contract,
        form=form,
        access=access,
        previous=previous,
        data=(*_refusal(earlier), *_operator_words(contract), *_answers(contract), *data),
        memory=memory,
        asks=asks,
    )
    return worker_prompt(library, order)


async def earlier_results(contract: TaskContract, artifacts: ArtifactPort) -> tuple[str, ...]:
    """Return the results of earlier runs in the order, as fenced data. Raises ArtifactError."""
    given = [each for each in contract.inputs.artifacts if each.name.startswith(RESULT)]
    contents = await asyncio.gather(*(artifacts.get(each.uri) for each in given))
    return tuple(
        fence_text(f"result of {each.name.removeprefix(RESULT)}", content)
        for each, content in zip(given, contents, strict=True)
    )


def out_of_scope(paths: Sequence[bytes], version: int = BRIEF) -> str:
    """The message, once, to an agent that wrote outside the paths of its contract."""
    if version == 1:
        return recorded_out_of_scope(paths)
    named = "\n".join(f"- {display(path)}" for path in paths[:_PATHS])
    more = f"\n- and {len(paths) - _PATHS:,} more" if len(paths) > _PATHS else ""
    return (
        f"You changed files outside the paths that you may change:\n\n{named}{more}\n\n"
        "Restore each of them, and remove those that are new. Then finish the task within your paths. If one of them stays "
        "changed, the whole work is refused."
    )


def _refusal(earlier: EarlierRound | None) -> Sequence[str]:
    if earlier is None:
        return ()
    patch = (fence_text("the refused patch", earlier.patch, limit=_PATCH),) if earlier.patch else ()
    return (fence_text("why the previous change was refused", earlier.failed), *patch)


def _answers(contract: TaskContract) -> Sequence[str]:
    answers = contract.questions.answers if contract.questions is not None else ()
    lines = [
        f"Question: {each.question}\nBest guess: {each.best_guess}\n"
        f"{each.person} {'confirms the guess' if each.stands else 'comments'}: {each.words or '(no words)'}"
        for each in answers
    ]
    return (fence_text("people's answers to questions of this run", "\n\n".join(lines)),) if lines else ()


def _operator_words(contract: TaskContract) -> Sequence[str]:
    lines = [
        f"{each.person} {'allows this attempt' if each.grants else 'comments'}: {each.words}"
        for each in contract.operator_words
    ]
    return (fence_text("people's words on this attempt", "\n\n".join(lines)),) if lines else ()
