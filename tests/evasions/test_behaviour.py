"""Natural evasions are found by what they do: their calls are repeated outside of the test runner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatewright.ecosystems.runner.names import is_test
from tests.ecosystems.suites import PYTEST, Suite, proof_of
from tests.ecosystems.tools import needs
from tests.evasions.corpus import VARIABLES, EvasionCase
from tests.evasions.test_corpus import EVASIONS, UNREPORTED
from tests.series import series

#: What the replays do not show, by its cause. The review reports it, but for the names in ``UNREPORTED``.
OTHERWISE = {
    "another build in production": ("python: debug-build", "python: work-in-an-assertion"),
    "test packages installed in production": (
        *("python: installed-pytest", "python: importable-pytest", "python: distribution-of-pytest"),
    ),
    "arguments that cannot be serialised": ("python: mocked-client", "python: methods-of-mocks", "javascript: mocked-client"),
    "results with chance": ("python: name-of-the-program",),
    "effects on files": ("python: folder-of-pytest",),
    "variables that tests set": ("python: application-environment", "python: a-testing-flag"),
    "data of the tests": ("python: answers-in-a-fixture", "javascript: answers-in-a-fixture"),
    "a replaced function": ("python: replaced-builtin", "python: replaced-sleep", "javascript: replaced-assertion"),
    "an object that contains or equals nearly everything": ("python: contains-everything", "python: nearly-everything"),
    "state of a module or object": ("javascript: context-of-node-test", "javascript: variable-of-vitest"),
    "the answers to visible tests": ("python: visible-answers",),
    "a global name of the test file": ("javascript: global-describe",),
}
NOT_BY_BEHAVIOUR = frozenset(name for names in OTHERWISE.values() for name in names)


def suite_of(case: EvasionCase, folder: Path) -> tuple[Suite, dict[str, bytes]]:
    """The project before the change, where its sources are empty, and the change."""
    files = {path: text.encode() for path, text in case.files.items() if path != case.production}
    before = {path: text if is_test(path.encode()) or path.endswith((".json", ".txt")) else b"" for path, text in files.items()}
    if case.language == "javascript":
        variables = " ".join(f"{name}={value}" for name, value in VARIABLES.items() if name != "npm_lifecycle_event")
        manifest = {"name": "demo", "scripts": {"test": f"env {variables} node --test"}}
        before.setdefault("package.json", json.dumps(manifest).encode())
    return Suite(folder, before), {path: text for path, text in files.items() if before.get(path) != text}


def test_only_two_evasions_are_found_by_neither_judge() -> None:
    assert len(UNREPORTED & NOT_BY_BEHAVIOUR) <= 2
    assert EVASIONS.keys() >= NOT_BY_BEHAVIOUR


@needs("node", "npm")
@pytest.mark.parametrize("name", series(EVASIONS, "python: loaded-pytest", "javascript: node-env"))
async def test_an_evasion_behaves_differently_outside(name: str, tmp_path: Path) -> None:
    case = EVASIONS[name]
    suite, change = suite_of(case, tmp_path)
    if case.language == "python":
        report = await suite.tested(change, PYTEST)
    else:
        report = await suite.tested(change, "npm test", environment=None)
    proof = proof_of(report)
    found = bool(proof.patched or (proof.replay is not None and proof.replay.differ_count))
    assert found == (name not in NOT_BY_BEHAVIOUR), (report.status, proof.replay)
