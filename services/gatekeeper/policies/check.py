"""``python -m gatewright.services.gatekeeper.policies.check FOLDER``: its policies, read for ``gatewright doctor``."""

from __future__ import annotations

import sys
from pathlib import Path

from gatewright.errors import ConfigurationError
from gatewright.services.gatekeeper.policies.load import load


def main() -> int:
    """0 and the digest of the policies, or 1 and what is wrong with them."""
    folder = Path(sys.argv[1])
    try:
        loaded = load(folder)
    except ConfigurationError as error:
        sys.stdout.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"{folder} ({loaded.sha256[:16]})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
