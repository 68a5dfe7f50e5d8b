"""The process that holds a stack which stays after its run: ``gatewright up --linger``, without the table of all commands.

Usage: ``python -m gatewright.app.cli.operations.lingering_process MINUTES WORKERS``; its settings are in the environment.
"""

from __future__ import annotations

import asyncio
import sys

from gatewright.app.cli.known_errors import as_known
from gatewright.app.cli.operations.stack import bring_up
from gatewright.app.cli.outcome import exit_of_error
from gatewright.app.cli.output import complain
from gatewright.errors import GatewrightError


def main() -> int:
    minutes, workers = float(sys.argv[1]), int(sys.argv[2])
    try:
        return asyncio.run(bring_up(workers, (), linger=minutes, json_output=True))
    except (GatewrightError, OSError) as error:
        known = as_known(error)
        if known is None:
            raise
        complain(known)
        return exit_of_error(known)


if __name__ == "__main__":
    sys.exit(main())
