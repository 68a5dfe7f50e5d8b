"""A real headless browser, where the machine has one. Where it has none the tests that need it are skipped and say so; in CI,
which installs one, GATEWRIGHT_NEEDS_CHROMIUM makes that a failure.
"""

from __future__ import annotations

import os
import shutil

import pytest

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
NEEDED = bool(os.environ.get("GATEWRIGHT_NEEDS_CHROMIUM"))


def chromium() -> str:
    """The program. Skips the test, or fails it, where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        words = "there is no chromium here: apt-get install chromium"
        if NEEDED:
            pytest.fail(words)
        pytest.skip(words)
    return found
