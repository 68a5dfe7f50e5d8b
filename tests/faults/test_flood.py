"""A flood of messages that are malformed, oversized, repeated, out of order or misdirected: every one is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.flood import flood
from tests.faults.flood_account import show

#: What a suite has time for; ``python -m tests.faults.flood --messages 10000`` sends all.
MESSAGES = 900


@pytest.mark.long
async def test_a_flood_is_accounted_for_and_harms_no_honest_run(tmp_path: Path) -> None:
    account = await flood(tmp_path, MESSAGES, seed=1)
    print(show(account))  # noqa: T201 - the counts are part of the proof
    assert account.wrong == []
    assert account.sent == MESSAGES
    assert account.changed == []
    assert account.grown() == []
    assert account.honest == account.verified >= 2
