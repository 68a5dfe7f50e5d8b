"""The test runner's process."""

from __future__ import annotations

from gatewright.service.tasks import run_service
from gatewright.services.testrunner.handler import make_handler
from gatewright.services.testrunner.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_service("testrunner", make_handler, Settings))
