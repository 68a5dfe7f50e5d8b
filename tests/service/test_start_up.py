"""Seven processes start on two cores: what a role does not need to start is not loaded."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("rich", "typer", "jsonschema", "referencing", "cryptography", "securesystemslib", "git", "pytest")


def test_role_process_starts_without_what_it_does_not_need() -> None:
    program = f"import sys, gatewright.service.tasks; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
