"""``gatewright report``: the file that it writes, and what its exit code says."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from tests.cli.conftest import Command
from tests.evidence.recorded_runs import make_success


def make_bundle(tmp_path: Path) -> Path:
    """A sealed bundle in the home folder of ``tmp_path``."""
    run, home = make_success(), tmp_path / ".gatewright"
    key = keys.create(keys.home_key(home))
    sealing = BundleWriter(home / "runs").seal(run.run, run.transitions, run.store, Signer(key))
    return Path(asyncio.run(sealing).location)


def test_page_of_a_verified_run_is_written(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("report", bundle.name, "-o", "report.html")
    assert said.exit_code == 0
    assert "verified" in said.out
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Verified." in page
    assert gatewright("report", bundle, "-o", "again.html", "--json").documents == [
        {"report": "again.html", "ok": True, "outcome": "ok", "run_id": bundle.name}
    ]
    assert (tmp_path / "again.html").read_text() == page
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gatewright", "again.html", "report.html"]


def test_an_altered_bundle_gets_a_page_and_a_failing_exit_code(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    (bundle / "added.txt").write_text("x")
    said = gatewright("report", bundle, "-o", "report.html")
    assert said.exit_code == 1
    assert "not verified" in said.out
    assert "Do not rely on it" in (tmp_path / "report.html").read_text()


def test_page_is_never_written_into_the_bundle(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    assert gatewright("report", bundle, "-o", bundle / "report.html").exit_code == 2
    assert gatewright("verify", bundle).exit_code == 0


def test_page_that_cannot_be_written_is_bad_input(gatewright: Command, tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path)
    said = gatewright("report", bundle, "-o", "absent/report.html", "--json")
    assert said.exit_code == 2
    assert said.documents[0]["error"]["code"] == "output_unwritable"
    assert gatewright("report", "run-unknown00", "-o", "x.html").exit_code == 2
