"""The test runner lists what commands were shown: once for each state of an environment, planted files included."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gatewright.contracts import EnvironmentInventory, TestReport, codec
from gatewright.contracts.inventory import PullFacts
from gatewright.contracts.vocabulary import InventorySummary
from gatewright.egress.record import EgressLog, EgressRecord
from gatewright.environment_inventory.pulls import ARTIFACT as ARTIFACT_OF_LOG
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.sandbox.environments import EGRESS_LOG, PREPARED, EgressSummary, PreparedEnvironment
from tests.ecosystems.environments import make_environment
from tests.ecosystems.suites import Suite
from tests.environment_inventory.installed import install

PASSES = "python -c pass"


def make_suite(folder: Path) -> Suite:
    make_environment(folder / "env", pytest=False)
    install(folder / "env", metadata="License-Expression: MIT\n")
    return Suite(folder, prefix=folder / "env")


def figures(report: TestReport) -> InventorySummary:
    assert report.surroundings is not None
    assert report.surroundings.inventory is not None
    return report.surroundings.inventory


def inventory(suite: Suite, report: TestReport) -> EnvironmentInventory:
    (stored,) = [each for each in report.artifacts if each.name == ARTIFACT]
    data = suite.fixture.artifacts.stored[stored.uri]
    found = codec.decode(data, EnvironmentInventory)
    assert summary_of(found, data) == figures(report)
    return found


def kept(suite: Suite) -> list[Path]:
    tables = (suite.fixture.state / "testrunner" / "tables").iterdir()
    return sorted(each for each in tables if each.read_bytes().startswith(ARTIFACT.encode()))


async def test_the_report_lists_the_packages_that_commands_saw(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    report = await suite.tested({}, PASSES)
    (tree,) = inventory(suite, report).trees
    assert [(each.name, each.version, each.licence) for each in tree.packages] == [("needed", "1.0", "MIT")]
    assert (tree.unknown, tree.altered, report.status) == ((), (), "PASS")


async def test_a_planted_file_is_in_the_next_report(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    first = figures(await suite.tested({}, PASSES))
    planted = next((tmp_path / "env").glob("lib/python*/site-packages")) / "planted.py"
    planted.write_text("import os\n")
    report = await suite.tested({}, PASSES)
    assert (first.unknown_files, figures(report).unknown_files, len(kept(suite))) == (0, 1, 2)
    assert inventory(suite, report).trees[0].unknown == (planted.relative_to(tmp_path / "env").as_posix(),)


async def test_an_inventory_is_kept_for_the_same_environment(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    await suite.tested({}, PASSES)
    (place,) = kept(suite)
    place.write_bytes(place.read_bytes().replace(b'"1.0"', b'"1.1"'))
    assert inventory(suite, await suite.tested({}, PASSES)).trees[0].packages[0].version == "1.1"


async def test_a_secret_in_the_name_of_a_package_does_not_leave_the_host(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    next((tmp_path / "env").glob("lib/python*/site-packages")).joinpath(f"{token}.py").touch()
    report = await suite.tested({}, PASSES)
    assert all(token.encode() not in data for data in suite.fixture.artifacts.stored.values())
    assert figures(report).unknown_files == 1


async def test_without_an_environment_there_is_no_inventory(tmp_path: Path) -> None:
    report = await make_suite(tmp_path).tested({}, "true", environment=None)
    assert report.surroundings is not None
    assert (report.surroundings.inventory, report.status) == (None, "PASS")
    assert ARTIFACT not in {each.name for each in report.artifacts}


def write_log(prefix: Path, *paths: str) -> EgressLog:
    """Give the environment the record and the log of a pull."""
    log = EgressLog(prefix / EGRESS_LOG)
    for path in paths:
        log.append(EgressRecord("pypi", "pypi.org", "GET", path, "allowed", "2026-01-02T00:00:00.000Z", status=200, bytes=7))
    summary = EgressSummary(requests=len(paths), refused=0, bytes=7 * len(paths), head=log.head)
    (prefix / PREPARED).write_bytes(msgspec.json.encode(PreparedEnvironment("pip", {}, egress=summary)))
    return log


async def test_the_egress_log_of_the_environment_is_in_the_report(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    log = write_log(tmp_path / "env", "/simple/needed/", "/packages/needed.whl")
    report = await suite.tested({}, PASSES)
    (stored,) = [each for each in report.artifacts if each.name == ARTIFACT_OF_LOG]
    assert suite.fixture.artifacts.stored[stored.uri] == log.path.read_bytes()
    (tree,) = inventory(suite, report).trees
    assert tree.pull == PullFacts(requests=2, refused=0, bytes=14, log_sha256=stored.sha256)
    assert (figures(report).requests, tree.unknown) == (2, ())


async def test_a_changed_egress_log_is_not_believed(tmp_path: Path) -> None:
    suite = make_suite(tmp_path)
    log = write_log(tmp_path / "env", "/simple/needed/", "/simple/more/")
    log.path.write_bytes(log.path.read_bytes().splitlines(keepends=True)[0])
    report = await suite.tested({}, PASSES)
    (tree,) = inventory(suite, report).trees
    assert tree.pull is None
    assert "egress log was changed" in tree.faults[0]
    assert not [each for each in report.artifacts if each.name == ARTIFACT_OF_LOG]


async def test_an_egress_log_with_a_secret_does_not_leave_the_host(tmp_path: Path) -> None:
    suite, token = make_suite(tmp_path), "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    write_log(tmp_path / "env", f"/simple/{token}/")
    report = await suite.tested({}, PASSES)
    assert all(token.encode() not in data for data in suite.fixture.artifacts.stored.values())
    (tree,) = inventory(suite, report).trees
    assert (tree.pull, tree.faults) == (None, ("the egress log is unreadable, or has a secret",))
