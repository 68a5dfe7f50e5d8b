"""Results by test in verdicts of the tests gate, with real ledger records and artifacts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gatewright.contracts import FlakyTest, GateReport
from gatewright.rules.reports.flakes import flaky_tests
from tests.attacks import planted
from tests.gatekeeper.played_runs import PlayedRuns, open_played_runs
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

RED = {"t.py::a": "passed", "t.py::b": "failed"}
GREEN = {"t.py::a": "passed", "t.py::b": "passed"}


def remarks(report: GateReport) -> list[str]:
    return [each.message for each in report.remarks]


def flakes(runs: PlayedRuns, *publishers: str) -> list[FlakyTest]:
    """The flaky tests in runs of these publishers."""
    return flaky_tests(runs.index.records("", datetime(2000, 1, 1, tzinfo=UTC), lambda name: name in (publishers or "default")))


async def test_a_failure_and_a_later_pass_are_a_flake(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        first, second = await runs.play(RED), await runs.play(GREEN)
        third = await runs.play(RED, text="two")
    assert (first.verdict, remarks(first)) == ("FAIL", [])
    (part,) = first.played
    assert (part.failed, part.passed, part.passed_before) == (("t.py::b",), (), ())
    assert (second.verdict, second.played[0].passed) == ("PASS", ("t.py::b",))
    rate = "it failed 1 of 2 times"
    assert remarks(second) == [f"t.py::b failed and passed on tree {part.tree[:12]}: it is a flake; {rate}"]
    assert (third.verdict, third.code) == ("FAIL", "tests_failed")
    words = "it is a known flake: it failed 2 of 3 times, with both results on one tree"
    assert remarks(third) == [f"t.py::b failed; {words}"]


async def test_a_pass_and_a_later_failure_are_a_flake(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(GREEN)
        report, again = await runs.play(RED), await runs.play(RED)
        (flake,) = flakes(runs)
    assert report.played[0].passed_before == ("t.py::b",)
    assert "t.py::b failed and passed on tree" in remarks(report)[0]
    assert again.played[0].passed_before == ()
    assert (flake.plays, flake.failures, flake.flaky_trees, flake.last_run) == (3, 2, 1, runs.run_id)


async def test_both_results_within_one_report_are_a_flake(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        report = await runs.play(RED, GREEN)
        (flake,) = flakes(runs)
    assert report.verdict == "PASS"
    assert (flake.test, flake.plays, flake.failures, flake.percent) == ("t.py::b", 2, 1, 50.0)
    assert len(remarks(report)) == 1


async def test_results_of_two_trees_are_no_flake(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED)
        report = await runs.play(GREEN, text="two")
        assert flakes(runs) == []
    assert remarks(report) == []


async def test_results_of_two_commands_are_no_flake(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED)
        report = await runs.play(GREEN, cmd="python -m pytest -x")
        assert flakes(runs) == []
    assert report.played[0].passed == ()


async def test_a_skipped_or_missing_test_has_not_passed(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play({"t.py::b": "skipped", "t.py::a": "passed"})
        await runs.play(RED)
        await runs.play({"t.py::a": "passed"})
        assert flakes(runs) == []


async def test_another_publishers_results_stay_hidden(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        await runs.play(RED, publisher="acme")
        report = await runs.play(GREEN)
        assert flakes(runs, "acme", "default") == []
        seen = await runs.play(GREEN, publisher="operator")
    assert (remarks(report), report.played[0].passed) == ([], ())
    assert "t.py::b failed and passed on tree" in remarks(seen)[0]


async def test_hidden_commands_are_not_recorded(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        report = await runs.play(RED, GREEN, hidden=True)
    assert (report.played, remarks(report)) == ((), [])


async def test_results_of_other_code_than_the_tree_are_not_recorded(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        for field in ("shadowed", "rewritten", "patched"):
            report = await runs.play(RED, proof={field: ("t.py",)})
            assert report.played == ()


async def test_an_unreadable_table_or_long_command_records_nothing(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        for table in ("", "x" * 100_000, await runs.gatekeeper.bus.put_artifact(b"t.py::b\tfailed\n\xff")):
            assert (await runs.play(RED, proof={"table": table})).played == ()
        assert (await runs.play(RED, cmd=f"python -m pytest {'x' * 2_000}")).played == ()


async def test_a_failure_on_the_baseline_counts_for_its_tree_alone(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        report = await runs.play(RED, proof={"failed_before": ("t.py::b",), "exit_before": 1})
        assert flakes(runs) == []
    candidate, baseline = report.played
    assert (baseline.failed, baseline.table) == (("t.py::b",), "")
    assert baseline.tree not in ("", candidate.tree)


async def test_an_expired_table_shows_no_pass(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_played_runs(make_repository(), tmp_path) as runs:
        (part,) = (await runs.play(GREEN)).played
        runs.gatekeeper.orchestrator.gates.artifacts._known.clear()
        del runs.gatekeeper.bus.server.artifacts[part.table.rpartition(":")[2]]
        report = await runs.play(RED)
    assert (report.played[0].passed_before, report.code) == ((), "tests_failed")


async def test_hostile_names_are_bounded_and_redacted(make_repository: MakeRepository, tmp_path: Path) -> None:
    names = [
        "t.py::" + "!" * 10_000,
        "t.py::\x1b[31m\u202e<script>",
        f"t.py::{planted.GITHUB}",
        *(f"t.py::{n}" for n in range(200)),
    ]
    async with open_played_runs(make_repository(), tmp_path) as runs:
        report = await runs.play(dict.fromkeys(names, "failed"), dict.fromkeys(names, "passed"))
        found = flakes(runs)
    first, second = report.played
    assert len(first.failed) == len(second.passed) == 50
    assert max(map(len, first.failed)) <= 300
    assert len(found) == 50
    assert planted.GITHUB not in " ".join(remarks(report))
    assert max(map(len, remarks(report))) <= 600
