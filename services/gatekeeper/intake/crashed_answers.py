"""Ends the run that waits for an answer which ends the gatekeeper each time: it is put aside, and no other answer would come.

What is not the answer of a task in hand, from the process that was given it, ends nothing.
"""

from __future__ import annotations

from gatewright.bus.port import Bus, Message
from gatewright.contracts import Error
from gatewright.errors import DeniedError, MalformedError
from gatewright.reasons import family_of
from gatewright.services.gatekeeper.decider.gate_checks import expected_task
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.services.gatekeeper.decider.summons import question_of
from gatewright.services.gatekeeper.dispatch.task_tokens import check_held
from gatewright.services.gatekeeper.intake.reading import read
from gatewright.services.gatekeeper.intake.role_replies import answer_of, run_of
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.telemetry.logs import Logger

CODE = "answer_crashes_gatekeeper"


async def end_its_run(message: Message, defect: Exception, bus: Bus, orchestrator: Orchestrator, log: Logger) -> None:
    """End the run, or the question beside it, with an Error in the place of the answer in ``message``. It may be repeated.

    Raises UnavailableError: bring the message again; and what the defect raises where it lies in the run itself.
    """
    try:
        answered = await read(message, lambda: answer_of(message))
        run = await orchestrator.current(run_of(answered)) if isinstance(answered, RoleReplied) else None
        if run is None or not isinstance(answered, RoleReplied):
            return
        check_held(bus, run, answered, message)
    except (MalformedError, DeniedError) as error:
        log.warning("answer_ends_no_run", code=error.reason, cause=error.message)
        return
    in_hand = expected_task(run, answered)
    question = question_of(run, answered)
    task_id = in_hand.task_id if in_hand is not None else question.task.task_id if question is not None else None
    if task_id is None:
        return
    words = f"the gatekeeper failed with {type(defect).__name__} each time it took the answer; see its log"
    ending = Error(code=CODE, message=words, run_id=run.run_id, task_id=task_id, role=answered.role, family=family_of(CODE))
    log.error("answer_given_up", code=CODE, run_id=run.run_id, task_id=task_id, cause=words)
    await orchestrator.advance(run.run_id, RoleReplied(answered.role, ending, f"crashed:{message.sequence}"))
