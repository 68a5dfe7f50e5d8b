"""Compiles the catalogue of secrets ahead of the first use: ``python -m gatewright.secrets``, after an installation."""

from __future__ import annotations

import sys
from pathlib import Path

from gatewright.errors import ConfigurationError
from gatewright.secrets.selection import make_scanner


def main() -> int:
    """0 when the scanner is ready; 2 with the cause when it cannot be had."""
    try:
        scanner = make_scanner("kingfisher", Path.home() / ".cache" / "gatewright" / "secret-rules")
        scanner.prepare()
    except ConfigurationError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    sys.stdout.write(f"{scanner.name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
