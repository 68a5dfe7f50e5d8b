"""The reviewer's process."""

from __future__ import annotations

from operator import attrgetter

from gatewright.service.tasks import run_service
from gatewright.services.reviewer.handler import Settings, confine, make_handler, sockets_of
from gatewright.structured.summons import summons_handlers

if __name__ == "__main__":
    raise SystemExit(
        run_service(
            "reviewer", summons_handlers("reviewer", make_handler, attrgetter("agent_id"), sockets_of), Settings, before=confine
        )
    )
