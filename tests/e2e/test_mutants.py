"""A change with weak tests, through a whole stack: it lands and its survivors are said, or it does not, as the policy asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.resources import policy_directory
from tests.e2e.stack import Stack, running_stack
from tests.git.repositories import MakeRepository

pytestmark = pytest.mark.long

SOURCE = b"def price(number):\n    return number * 2\n"
TESTS = b"from pricing import price\n\n\ndef test_runs():\n    assert price(2)\n"
#: Of its three mutants one is noticed: no test looks at the figure.
CHANGE = b"import pathlib\n\npathlib.Path('src/pricing.py').write_text('def price(number):\\n    return number * 3\\n')\n"
TIME = {"time_share": 1, "least_seconds": 120, "most_mutants": 2}


@dataclass(frozen=True)
class AskingStack(Stack):
    """A stack whose pack ``high`` asks that most mutants are noticed, and whose pack ``medium`` only says survivors."""

    policies: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"GATEWRIGHT_POLICIES": str(self.policies)}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskingStack]:
    base = tmp_path_factory.mktemp("asking")
    policies = base / "policies"
    policies.mkdir()
    for path in policy_directory().iterdir():
        if path.is_file():
            (policies / path.name).write_bytes(path.read_bytes())
    (policies / "organisation").mkdir()
    packs = json.loads((policies / "policy_packs.json").read_text())
    packs["medium"]["mutation"] = TIME
    packs["high"]["mutation"] = TIME | {"must_kill": 0.9}
    (policies / "policy_packs.json").write_text(json.dumps(packs))
    stack = AskingStack(base / "home", policies)
    with running_stack(stack.home, workers=1, stack=stack):
        yield stack


def changed(stack: Stack, make_repository: MakeRepository, pack: str) -> tuple[int, dict[str, Any], bool]:
    """Exit code, result, and whether anything has landed."""
    files = {"src/pricing.py": SOURCE, "tests/test_pricing.py": TESTS, "tools/change.py": CHANGE}
    repository = make_repository("shop", files=files)
    before = repository.git("for-each-ref")
    words = ("--allow", "src/pricing.py", "--exec", "python tools/change.py", "--test", "python -m pytest -q")
    code, result = stack.run(repository.path, *words, "--policy-pack", pack)
    return code, result, repository.git("for-each-ref") != before


def test_a_weakly_tested_change_lands_with_its_survivors_reported(asking: AskingStack, make_repository: MakeRepository) -> None:
    code, result, landed = changed(asking, make_repository, "medium")
    assert (code, landed) == (0, True), result["failure"]
    report = Path(result["bundle"]) / "reports" / "test_report.json"
    tests = json.loads(report.read_bytes())
    sample = tests["commands"][0]["proof"]["mutation"]
    survivors = [each for each in sample["mutants"] if each["outcome"] == "survived"]
    assert {(each["path"], each["line"]) for each in survivors} == {("src/pricing.py", 2)}
    shown = " ".join(asking.command("show", result["run_id"]).stdout.split())
    assert "survived: src/pricing.py:2 `" in shown
    assert asking.command("verify", result["bundle"]).returncode == 0

    sample["mutants"] = [each for each in sample["mutants"] if each not in survivors]
    sample["tried"] = sample["possible"] = len(sample["mutants"])
    report.chmod(0o644)
    report.write_text(json.dumps(tests))
    verified = asking.command("verify", result["bundle"])
    assert verified.returncode == 1
    assert "reports/test_report.json" in verified.stdout + verified.stderr


def test_a_stricter_policy_refuses_a_change_with_weak_tests(asking: AskingStack, make_repository: MakeRepository) -> None:
    code, result, landed = changed(asking, make_repository, "high")
    assert (code, result["status"], result["failure"]["code"]) == (1, "FAILED", "tests_too_weak"), result
    assert not landed
    assert "src/pricing.py:2 `" in result["failure"]["message"]
    assert asking.command("verify", result["bundle"]).returncode == 0


def test_no_mutant_is_tried_under_low(asking: AskingStack, make_repository: MakeRepository) -> None:
    code, result, landed = changed(asking, make_repository, "low")
    assert (code, landed) == (0, True), result["failure"]
    tests = json.loads((Path(result["bundle"]) / "reports" / "test_report.json").read_bytes())
    assert "mutation" not in tests["commands"][0]["proof"]
