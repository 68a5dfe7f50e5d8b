"""The worker's process."""

from __future__ import annotations

from gatewright.service.tasks import run_service
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_service("worker", make_handler, Settings))
