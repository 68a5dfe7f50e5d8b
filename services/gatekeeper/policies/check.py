"""``python -m gatewright.services.gatekeeper.policies.check FOLDER``: checks a policy folder for ``gatewright doctor``."""

from __future__ import annotations

import sys
from pathlib import Path

from gatewright.errors import ConfigurationError
from gatewright.policy_files import policy_origins
from gatewright.services.gatekeeper.policies.load import load


def main() -> int:
    """Print the digest of the policies and return 0, or print their fault and return 1."""
    folder = Path(sys.argv[1])
    try:
        loaded = load(folder)
    except ConfigurationError as error:
        sys.stdout.write("; ".join(error.message.splitlines()) + "\n")
        return 1
    own = [each.name for each in policy_origins(folder) if not each.delivered]
    rest = len(policy_origins(folder)) - len(own)
    origin = f"{', '.join(own)} from there, {rest} delivered" if own and rest else "all delivered" if rest else "all from there"
    sys.stdout.write(f"{folder} ({loaded.sha256[:16]}; {origin})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
