"""The pm's process."""

from __future__ import annotations

from operator import attrgetter

from gatewright.service.tasks import run_service
from gatewright.services.pm.handler import Settings, make_handler
from gatewright.structured.summons import summons_handlers

if __name__ == "__main__":
    raise SystemExit(run_service("pm", summons_handlers("pm", make_handler, attrgetter("agent_id")), Settings))
