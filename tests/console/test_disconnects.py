"""Whatever is killed, cut or asleep between open pages and the ledger, they come to equal it.

Each interruption of each page counts. How long they take is printed, by what was broken. `python -m benchmarks.interruptions`
plays two hundred, as ``test_events.py`` does with the stream alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.console.interruptions import KINDS, PAGES, account, interrupted
from tests.console.test_browser import browser

pytestmark = pytest.mark.long
__all__ = ["browser"]


def test_interrupted_pages_lose_nothing_and_double_nothing(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = interrupted(browser, tmp_path, 2 * len(KINDS))
    with capsys.disabled():
        sys.stdout.write("".join(f"\n{line}" for line in account(taken)))
    assert {kind: len(times) // len(PAGES) for kind, times in taken.items()} == {kind: 2 * KINDS.count(kind) for kind in KINDS}
