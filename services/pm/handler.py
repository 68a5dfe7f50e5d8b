"""A request in, a task contract out; or an Error that names what the request lacks."""

from __future__ import annotations

from gatewright.contracts import Error, RequestTask, TaskContract
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import MalformedError
from gatewright.services.pm.compiler import compile_contract
from gatewright.tasks.handler import TaskContext


class PmHandler:
    """The pm of id ``agent_id``. Keeps nothing between tasks."""

    def __init__(self, agent_id: str) -> None:
        self._agent = Agent(role="PM", agent_id=agent_id)

    async def handle(self, task: RequestTask, context: TaskContext) -> TaskContract | Error:
        """The contract of the request. A request that cannot become one is an ordinary answer, and no fault of the system."""
        try:
            return compile_contract(task, self._agent)
        except MalformedError as error:
            context.log.info("request_refused", code=error.reason, faults=[fault.pointer for fault in error.faults])
            faults = [ErrorFault(pointer=fault.pointer, code=fault.code, message=fault.message) for fault in error.faults]
            return Error(code=error.reason, message=error.message, faults=tuple(faults), family=error.family)
