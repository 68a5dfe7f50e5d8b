"""The agent that did a task: its record among the task's artifacts, as read by parts other than the worker."""

from __future__ import annotations

from typing import Final

import msgspec

from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: The artifact of a worker's result with the agent's probe results.
ADMISSION: Final = "agent_admission"
#: The folder below the home folder in which what was found of each agent of this host is kept.
ADMISSIONS: Final = "agents"


class AdmittedAgent(msgspec.Struct, frozen=True):
    """The agent of a task by its entry in agents.json, and the version of its package."""

    agent: str
    package_version: str = ""


def admitted_agent(record: bytes) -> AdmittedAgent:
    """Return the record in these bytes. Raises MalformedError."""
    try:
        return read_json(record, AdmittedAgent)
    except UnreadableDocumentError as error:
        raise MalformedError(f"this is not a record of an agent: {error}") from None
