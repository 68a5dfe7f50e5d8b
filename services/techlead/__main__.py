"""The tech lead's process."""

from __future__ import annotations

from gatewright.service.tasks import run_service
from gatewright.services.techlead.handler import make_handler
from gatewright.services.techlead.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_service("techlead", make_handler, Settings))
