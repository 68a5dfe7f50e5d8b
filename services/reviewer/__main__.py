"""The reviewer's process."""

from __future__ import annotations

from gatewright.service.tasks import run_service
from gatewright.services.reviewer.handler import confine, make_handler
from gatewright.services.reviewer.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_service("reviewer", make_handler, Settings, before=confine))
