"""The probe results of each coding agent of this host, in the home folder. They are read and not judged here."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.foreign_documents import UnreadableDocumentError, read_json

_MOST_BYTES = 1 << 20
_MOST_AGENTS = 100


class ProbeStep(msgspec.Struct, frozen=True):
    """A step of a probe; ``found`` is for people."""

    step: str
    outcome: str
    found: str = ""


class ProbePermissions(msgspec.Struct, frozen=True):
    """The permissions that the agent may get after it."""

    shells: tuple[str, ...] = ()
    read_only: bool = False
    own_settings: bool = False


class ProbedAgent(msgspec.Struct, frozen=True):
    """An agent in the version that was probed; ``admitted``: it may be used at all."""

    agent: str
    agent_version: str
    probed_at: str
    admitted: bool
    steps: tuple[ProbeStep, ...] = ()
    permitted: ProbePermissions = ProbePermissions()
    package_version: str = ""


def probed_agents(home: Path) -> tuple[ProbedAgent, ...]:
    """Return the records by name. Unreadable records are skipped, and links not followed."""
    try:
        files = sorted((home / ADMISSIONS).glob("*.json"))[:_MOST_AGENTS]
    except OSError:
        return ()
    return tuple(found for file in files if (found := _read_probe(file)) is not None)


def _read_probe(file: Path) -> ProbedAgent | None:
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
            return read_json(opened.read(_MOST_BYTES), ProbedAgent)
    except (OSError, UnreadableDocumentError):
        return None
