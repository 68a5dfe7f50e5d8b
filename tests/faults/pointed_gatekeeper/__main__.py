"""The gatekeeper with crash points as a program: ``python -m tests.faults.pointed_gatekeeper``."""

from gatewright.service.process import run_process
from gatewright.services.gatekeeper.service import serve
from gatewright.services.gatekeeper.settings import Settings
from tests.faults.crash_points import put_points

if __name__ == "__main__":
    put_points()
    raise SystemExit(run_process("gatekeeper", serve, Settings))
