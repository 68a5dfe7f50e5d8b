"""Entry point of the gatekeeper: ``python -m gatewright.services.gatekeeper``."""

from gatewright.service.process import run_process
from gatewright.services.gatekeeper.service import serve
from gatewright.services.gatekeeper.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run_process("gatekeeper", serve, Settings))
