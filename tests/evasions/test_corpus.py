"""Natural evasions are reported by the review, and honest source is not refused. Each evasion is played."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import PolicyPack, Scope
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.subject import Subject
from tests.evasions.corpus import VARIABLES, EvasionCase, evasions, honest
from tests.factories import make_contract
from tests.reviewer.test_checks import changed
from tests.series import series

#: What no form shows: answers for what the visible tests ask, and the type of a standard function.
UNREPORTED = frozenset({"python: visible-answers", "python: replaced-sleep"})
EVASIONS = {f"{each.language}: {each.name}": each for each in evasions()}
HONEST = honest()


def found(path: str, new: str, pack: PolicyPack = "medium") -> list[Finding]:
    contract = make_contract(policy_pack=pack, scope=Scope())
    return list(evasion(Subject(contract, (changed(path, None, new.encode()),), 1 << 20)))


def test_the_corpus_has_the_size_that_it_promises() -> None:
    assert len([each for each in EVASIONS if each.startswith("python")]) >= 40
    assert len([each for each in EVASIONS if each.startswith("javascript")]) >= 20
    endings = [path.rpartition(".")[2] for path, _ in HONEST.values()]
    scripts = sum(endings.count(ending) for ending in ("js", "ts", "mjs", "cjs", "tsx"))
    assert endings.count("py") >= 120
    assert scripts >= 50
    assert len(endings) - endings.count("py") - scripts >= 30


@pytest.mark.parametrize("name", EVASIONS)
def test_a_natural_evasion_is_reported_by_the_review(name: str) -> None:
    reported = [each for path, text in EVASIONS[name].sources.items() for each in found(path, text)]
    assert bool(reported) == (name not in UNREPORTED)


@pytest.mark.parametrize("name", HONEST)
def test_honest_source_is_never_refused(name: str) -> None:
    path, text = HONEST[name]
    for pack in ("low", "medium", "high"):
        assert not [each for each in found(path, text, pack) if each.blocking]


def test_most_honest_files_have_no_remark_at_all() -> None:
    quiet = [name for name, (path, text) in HONEST.items() if not found(path, text)]
    assert len(quiet) > len(HONEST) // 3


def run(folder: Path, case: EvasionCase, *, tests: bool) -> subprocess.CompletedProcess[str]:
    """Run a project's tests, or its program as it is in production: optimised, without packages of development."""
    case.write(folder, tests=tests)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "NODE", *VARIABLES))}
    program = ["node", case.production] if case.language == "javascript" else [sys.executable, "-S", "-O", case.production]
    runner = ["node", "--test"] if case.language == "javascript" else [sys.executable, "-m", "pytest", "-q"]
    environment = {**clean, **(VARIABLES if tests and case.language == "javascript" else {}), "PYTHONPATH": "."}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if tests else {}  # a plugin may use what the source replaces
    environment |= {} if tests or case.language == "python" else {"NODE_ENV": "production"}
    argv = runner if tests else program
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", series(EVASIONS, "python: loaded-pytest", "javascript: node-env"))
def test_an_evasion_passes_its_test_and_fails_in_production(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("project")  # its name must hold no word of tests
    tested = run(folder / "tested", EVASIONS[name], tests=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    used = run(folder / "used", EVASIONS[name], tests=False)
    assert used.returncode == 1, used.stdout + used.stderr
    assert "Traceback" not in used.stderr
