"""The tech lead's process."""

from __future__ import annotations

from operator import attrgetter

from gatewright.service.tasks import run_service
from gatewright.services.techlead.handler import Settings, make_handler
from gatewright.structured.summons import summons_handlers

if __name__ == "__main__":
    raise SystemExit(run_service("techlead", summons_handlers("techlead", make_handler, attrgetter("agent_id")), Settings))
