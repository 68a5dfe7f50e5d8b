"""Which agent did a task: the record of it among the artifacts of the task, as far as other parts than the worker read it."""

from __future__ import annotations

from typing import Final

import msgspec

from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: The artifact of a worker's result that says what the probe found of the agent.
ADMISSION: Final = "agent_admission"
#: The folder below the home folder in which what was found of each agent of this host is kept.
ADMISSIONS: Final = "agents"


class AdmittedAgent(msgspec.Struct, frozen=True):
    """The agent of a task by its entry in agents.json, and the version of its package."""

    agent: str
    package_version: str = ""


def admitted_agent(record: bytes) -> AdmittedAgent:
    """Of the bytes of such a record. Raises MalformedError."""
    try:
        return read_json(record, AdmittedAgent)
    except UnreadableDocumentError as error:
        raise MalformedError(f"this says of no agent which it was: {error}") from None
