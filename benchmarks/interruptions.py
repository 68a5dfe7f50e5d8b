"""How soon interrupted pages of the console equal the ledger again: four pages in a real browser, over a real NATS server.

Console ended, server killed, wire cut, pages frozen, one after another. What gets lost or doubled ends it with an error.

    python -m benchmarks.interruptions [TIMES]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.console.chromium import ARGUMENTS, chromium
from tests.console.interruptions import PAGES, account, interrupted


def main(times: int) -> None:
    """``times``: interruptions of every page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        for line in account(interrupted(browser, Path(folder), times)):
            print(line)
        browser.close()
    print(f"{times * len(PAGES)} interruptions of {len(PAGES)} pages")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
