"""Starts the gatekeeper: ``python -m services.gatekeeper``."""

from gatewright.service.process import run_process
from services.gatekeeper.service import serve
from services.gatekeeper.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_process("gatekeeper", serve, Settings))
