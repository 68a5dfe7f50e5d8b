"""The puller's process."""

from __future__ import annotations

from gatewright.app.puller.orders import PullerSettings, serve_orders
from gatewright.service.process import run_process

if __name__ == "__main__":
    raise SystemExit(run_process("puller", serve_orders, PullerSettings))
