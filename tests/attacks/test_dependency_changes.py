"""What an opened class of dependencies lets in beside versions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import AcceptanceTest, Scope
from tests.attacks.real_gate import RealGate, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

RULE = "dependency_changes"
PYPROJECT = b'[project]\nname = "x"\ndependencies = ["a>=1"]\n'
PACKAGE = {"name": "x", "dependencies": {"a": "1"}}
FILES = {"src/a.py": b"A = 1\n", "pyproject.toml": PYPROJECT, "package.json": json.dumps(PACKAGE).encode(), "src/go.sum": b""}
PATHS = ("pyproject.toml", "package.json", "src/")


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    tests = (
        AcceptanceTest(name="tests", cmd="uv run pytest -q", must_pass=True),
        AcceptanceTest(name="own", cmd="shop --help", must_pass=True),
    )
    changes = {"scope": Scope(allow_dependency_change=True), "allowed_paths": PATHS, "acceptance_tests": tests}
    async with open_gate(make_repository(files=FILES), tmp_path, **changes) as opened:
        yield opened


async def judged(gate: RealGate, files: dict[str, bytes | None]) -> GateReport:
    result = await gate.worked(gate.patch(files))
    report = await gate.diff(result)
    return await gate.integrated(result, evidence(report)["candidate_tree"]) if report.verdict == "PASS" else report


def lines(report: GateReport) -> list[tuple[str | None, str]]:
    return [(each.path, each.message) for each in report.remarks if each.rule == RULE]


async def test_package_from_git_and_its_script_are_remarked(gate: RealGate) -> None:
    changed = {**PACKAGE, "dependencies": {"a": "git+https://evil.example/a.git"}, "scripts": {"postinstall": "node x.js"}}
    report = await judged(gate, {"package.json": json.dumps(changed).encode()})
    # A script that npm runs by itself is a setting of tests, too.
    assert codes(report) == ["path_protected"]
    del changed["scripts"]
    assert lines(await judged(gate, {"package.json": json.dumps(changed).encode()})) == [
        ("package.json", "Takes the package a from git git+https://evil.example/a.git; it came from a registry.")
    ]


async def test_build_backend_in_the_repository_is_remarked(gate: RealGate) -> None:
    build = b'[build-system]\nrequires = []\nbuild-backend = "mine"\nbackend-path = ["."]\n'
    found = lines(await judged(gate, {"pyproject.toml": PYPROJECT + build}))
    assert ("pyproject.toml", "Adds the build backend build-system.backend-path: .") in found


async def test_installed_command_in_place_of_the_runner_is_refused(gate: RealGate) -> None:
    report = await judged(gate, {"pyproject.toml": PYPROJECT + b'[project.scripts]\npytest = "x:main"\n'})
    assert codes(report) == ["path_protected"]
    assert "the command pytest, which the contract runs" in report.summary


async def test_installed_command_in_place_of_python_is_refused(gate: RealGate) -> None:
    changed = {**PACKAGE, "bin": {"python3": "x.js"}}
    assert codes(await judged(gate, {"package.json": json.dumps(changed).encode()})) == ["path_protected"]


async def test_command_of_the_project_itself_is_let_in(gate: RealGate) -> None:
    report = await judged(gate, {"pyproject.toml": PYPROJECT + b'[project.scripts]\nshop = "x:main"\n'})
    assert (report.verdict, lines(report)) == ("PASS", [("pyproject.toml", "Adds the installed command shop: x:main")])


async def test_manifest_that_cannot_be_read_is_remarked(gate: RealGate) -> None:
    ((path, message),) = lines(await judged(gate, {"src/flake.lock": b"{"}))
    assert (path, message.partition(" (")[0]) == ("src/flake.lock", "What it changes of dependencies could not be read")


async def test_flood_of_dependency_changes_is_counted(gate: RealGate) -> None:
    scripts = "".join(f'tool-{n} = "x:main"\n' for n in range(90))
    found = lines(await judged(gate, {"pyproject.toml": PYPROJECT + b"[project.scripts]\n" + scripts.encode()}))
    assert len(found) == 21
    assert found[-1] == (None, "The change contains 90 dependency changes; 70 of them are not listed.")
