"""The pm's process."""

from __future__ import annotations

from gatewright.service.tasks import run_service
from gatewright.services.pm.handler import make_handler
from gatewright.services.pm.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_service("pm", make_handler, Settings))
