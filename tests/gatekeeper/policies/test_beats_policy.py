"""``beats.json``, and what counts in beats."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.load import load
from tests.attacks.people import roster

RULE = {"name": "landing", "reason": "landing", "risk": "medium", "approvers": ["ana"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "policies"
    shutil.copytree(policy_directory(), made)
    (made / "approvers.json").write_text(json.dumps(roster()))
    return made


def write(folder: Path, beats: dict[str, Any] | None = None, **rule: Any) -> None:
    if beats is not None:
        (folder / "beats.json").write_text(json.dumps({"version": "1", **beats}))
    if rule:
        (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [RULE | rule]}))


def test_without_the_file_a_beat_is_15_minutes(folder: Path) -> None:
    before = load(folder)
    assert (before.beats.seconds, before.beats.silence, "beats.json" in before.digests) == (900, 1800, False)
    write(folder, {"seconds": 2, "silent_after": 3})
    after = load(folder)
    assert (after.beats.seconds, after.beats.silence) == (2, 6)
    assert set(after.digests) - set(before.digests) == {"beats.json"}
    assert after.sha256 != before.sha256


@pytest.mark.parametrize("beats", [{"seconds": 0}, {"seconds": 86_401}, {"seconds": 1.5}, {"silent_after": 1}, {"second": 9}])
def test_what_is_no_beat_stops_the_gatekeeper(folder: Path, beats: dict[str, Any]) -> None:
    write(folder, beats)
    with pytest.raises(ConfigurationError, match=r"beats\.json"):
        load(folder)


@pytest.mark.parametrize(("beats", "seconds"), [(None, 3600), ({"seconds": 2}, 8)])
def test_a_rule_that_counts_in_beats_has_seconds_once_it_is_read(
    folder: Path, beats: dict[str, Any] | None, seconds: int
) -> None:
    write(folder, beats, within_beats=4)
    (rule,) = load(folder).people.rules
    assert (rule.within_seconds, rule.within_beats, rule.wait) == (seconds, None, seconds)


@pytest.mark.parametrize(
    "said", [{}, {"within_seconds": 60, "within_beats": 4}, {"within_beats": 90 * 96 + 1}], ids=["neither", "both", "too long"]
)
def test_a_rule_without_exactly_one_waiting_time_stops_the_gatekeeper(folder: Path, said: dict[str, int]) -> None:
    write(folder, None, risk="medium", **said)
    with pytest.raises(ConfigurationError, match="the rule landing"):
        load(folder)
