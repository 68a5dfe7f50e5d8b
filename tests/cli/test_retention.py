"""``gatewright gc`` and ``hold``: the plan first, nothing without --yes, and what is left can be verified."""

from __future__ import annotations

import json
from pathlib import Path

from gatewright.evidence.tombstone import FILE
from tests.cli.conftest import Command
from tests.cli.test_report import make_bundle

ALL = ("--keep-last", "0", "--keep-days", "0", "--keep-failed-days", "0")


def test_plan_is_printed_and_nothing_is_removed(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("gc", *ALL)
    assert said.exit_code == 0
    assert f"prune  {bundle.name}" in said.out
    assert "do it with --yes" in said.out
    assert (bundle / "manifest.json").exists()


def test_a_new_home_without_a_key_has_nothing_to_remove(gatewright: Command) -> None:
    said = gatewright("gc")
    assert (said.exit_code, said.err) == (0, "")
    assert "there are no bundles" in said.out


def test_bundles_without_a_key_to_verify_them_are_refused(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    for key in (tmp_path / ".gatewright" / "keys").rglob("*.p*"):
        key.unlink()
    said = gatewright("gc", *ALL, "--yes")
    assert said.exit_code != 0
    assert (bundle / "manifest.json").exists()


def test_by_default_the_last_bundles_stay(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("gc", "--yes")
    assert said.exit_code == 0
    assert "one of the last 20" in said.out
    assert (bundle / "manifest.json").exists()


def test_pruned_run_can_be_verified_and_shown_as_pruned(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    document = gatewright("gc", *ALL, "--yes", "--json").documents[0]
    assert (document["carried_out"], document["removed"], document["left"]) == (True, [bundle.name], [])
    assert [path.name for path in bundle.iterdir()] == [FILE]
    said = gatewright("verify", bundle.name, "--json")
    assert said.exit_code == 1
    assert [finding["code"] for finding in said.documents[0]["findings"]] == ["pruned"]
    assert gatewright("report", bundle.name, "-o", "report.html").exit_code == 1
    assert "the bundle was removed on" in (tmp_path / "report.html").read_text()
    assert gatewright("gc", *ALL, "--yes").out.strip().endswith("no bundle to remove")


def test_hold_keeps_a_bundle_until_it_is_released(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    assert gatewright("hold", bundle.name).exit_code == 2, "a reason has to be given"
    assert gatewright("hold", bundle.name, "--reason", "case 12").exit_code == 0
    assert gatewright("hold", bundle.name, "--reason", "again").exit_code == 2
    assert "case 12" in gatewright("hold").out
    assert [each["run_id"] for each in gatewright("hold", "--json").documents[0]["holds"]] == [bundle.name]
    assert "on hold since" in gatewright("gc", *ALL, "--yes").out
    assert (bundle / "manifest.json").exists()
    assert gatewright("hold", bundle.name, "--release", "--reason", "closed").exit_code == 0
    assert gatewright("gc", *ALL, "--yes", "--json").documents[0]["removed"] == [bundle.name]
    acts = [json.loads(line)["act"] for line in (tmp_path / ".gatewright" / "runs" / ".holds.jsonl").read_text().splitlines()]
    assert acts == ["place", "release"]


def test_hold_of_an_unknown_run_is_bad_input(gatewright: Command, tmp_path: Path) -> None:
    make_bundle(tmp_path)
    assert gatewright("hold", "run-unknown00", "--reason", "x").exit_code == 2
