"""A run told again from its bundle: the same states, the same files, and nothing that does not follow from the events."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.replay.rehydration import rehydrate
from gatewright.evidence import layout
from gatewright.run.states import TERMINAL
from tests.evidence.conftest import MakeBundle
from tests.evidence.recorded_runs import MAKERS, RecordedRun
from tests.evidence.tampering import files_of, put, read_events, remake_manifest, write_events


@pytest.mark.parametrize("name", MAKERS)
def test_every_kind_of_run_is_replayed(
    sealed_bundles: dict[str, Path], recorded_runs: dict[str, RecordedRun], name: str
) -> None:
    told = rehydrate(sealed_bundles[name])
    run = recorded_runs[name].run
    assert told.ok
    assert (told.run_id, told.status) == (run.run_id, run.status)
    assert [step.seq for step in told.steps] == list(range(1, run.seq + 1))
    assert told.steps[-1].state in TERMINAL
    # All that is there follows from the events, but for the list of it and its signature.
    assert set(told.derived) == set(files_of(sealed_bundles[name])) - layout.UNLISTED


def test_the_states_are_entered_in_their_order(sealed_bundles: dict[str, Path]) -> None:
    told = rehydrate(sealed_bundles["fixed"])
    assert [step.state for step in told.steps if step.entered] == ["S0", "S1", "S2", "S3", "S5", "S2", "S3", "S4", "S6"]


def test_a_document_that_the_events_do_not_make_is_named(make_bundle: MakeBundle) -> None:
    bundle = make_bundle("success")
    put(bundle / layout.WORKTREE_REF, b"git-tree:" + b"7" * 40 + b"\n")
    remake_manifest(bundle)
    told = rehydrate(bundle)
    assert not told.ok
    assert ("story_differs", layout.WORKTREE_REF) in {(finding.code, finding.path) for finding in told.findings}


def test_an_event_that_cannot_follow_ends_the_tale(make_bundle: MakeBundle) -> None:
    bundle = make_bundle("success")
    records = read_events(bundle)
    write_events(bundle, [record for record in records if record.event_type != "plan_accepted"], chained=True)
    remake_manifest(bundle)
    told = rehydrate(bundle)
    assert not told.ok
    assert told.findings


def test_a_replay_accepts_foreign_signatures_and_names_missing_ones(make_bundle: MakeBundle) -> None:
    bundle = make_bundle("success")
    (bundle / layout.ENVELOPE).unlink()
    told = rehydrate(bundle)
    assert {finding.code for finding in told.findings} == {"not_signed"}


def test_a_folder_that_is_no_bundle_is_not_ok(tmp_path: Path) -> None:
    told = rehydrate(tmp_path)
    assert not told.ok
    assert told.steps == ()
