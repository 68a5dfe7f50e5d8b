"""Acceptance checks that the makers of a change never see, through a whole stack: they decide, and nothing of them is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.git.repositories import MakeRepository, Repository

pytestmark = pytest.mark.long

SECRET = "assert price(21) == 42"
HIDDEN = f"from pricing import price\n\n\ndef test_other_numbers():\n    {SECRET}\n"
FILES = {
    "src/pricing.py": b"def price(number):\n    return number\n",
    "tests/test_pricing.py": b"from pricing import price\n\n\ndef test_two():\n    assert price(2) == 4\n",
    # What passes the visible test and nothing else; and what was asked for.
    "tools/fake.py": b"open('src/pricing.py', 'w').write('def price(number):\\n    return 4\\n')\n",
    "tools/honest.py": b"open('src/pricing.py', 'w').write('def price(number):\\n    return number * 2\\n')\n",
    # The maker plants a file where it guesses the hidden one.
    "tools/plant.py": b"open('src/pricing.py', 'w').write('def price(number):\\n    return 4\\n')\n"
    b"open('tests/test_hidden.py', 'w').write('def test_other_numbers():\\n    assert True\\n')\n",
}
WORDS = ("--allow", "src", "--allow-tests", "tests", "--test", "python -m pytest -q tests/test_pricing.py")


@pytest.fixture
def shop(make_repository: MakeRepository, tmp_path: Path) -> Repository:
    (tmp_path / "hidden.py").write_text(HIDDEN)
    return make_repository("shop", files=FILES)


def hidden(tmp_path: Path) -> tuple[str, ...]:
    given = f"tests/test_hidden.py={tmp_path / 'hidden.py'}"
    return (*WORDS, "--hidden-test", "python -m pytest -q tests/test_hidden.py", "--hidden-file", given)


@pytest.mark.long
@pytest.mark.parametrize("tool", ["fake", "plant"])
def test_a_change_made_for_the_visible_tests_alone_does_not_land(
    stack: Stack, shop: Repository, tmp_path: Path, tool: str
) -> None:
    before = shop.git("for-each-ref")
    code, result = stack.run(shop.path, *hidden(tmp_path), "--exec", f"python tools/{tool}.py")
    assert (code, result["failure"]["code"]) == (1, "hidden_tests_failed"), result
    assert shop.git("for-each-ref") == before
    report = json.loads((Path(result["bundle"]) / "reports" / "test_report.json").read_bytes())
    assert [(command["name"], command["exit_code"]) for command in report["commands"]] == [("test-1", 0), ("hidden-1", 1)]
    assert stack.command("verify", result["bundle"]).returncode == 0


def test_the_next_round_learns_only_that_a_hidden_check_failed(stack: Stack, shop: Repository, tmp_path: Path) -> None:
    answers = ("--exec", "python tools/fake.py", "--exec", "python tools/honest.py")
    code, result = stack.run(shop.path, *hidden(tmp_path), *answers)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    bundle = Path(result["bundle"])
    assert stack.command("verify", str(bundle)).returncode == 0
    contracts = {path: json.loads(path.read_bytes()) for path in sorted(bundle.rglob("*.json"))}
    given = {
        document["task_id"]: document
        for document in contracts.values()
        if isinstance(document, dict) and "acceptance_tests" in document and "task_id" in document
    }
    roles = {document["assigned_agent"]["role"]: document for document in given.values()}
    assert {"WORKER", "TECH_LEAD", "REVIEWER", "TEST_RUNNER"} <= roles.keys()
    for task_id, document in given.items():
        names = [test["name"] for test in document["acceptance_tests"]]
        files = [artifact["name"] for artifact in document["inputs"]["artifacts"] if artifact["name"].startswith("hidden:")]
        whole = document["assigned_agent"]["role"] == "TEST_RUNNER" or task_id.endswith(".contract")
        assert names == (["test-1", "hidden-1"] if whole else ["test-1"]), task_id
        assert files == (["hidden:tests/test_hidden.py"] if whole else []), task_id
    second = next(document for task_id, document in given.items() if task_id.endswith(".w01.a2"))
    assert [artifact["name"] for artifact in second["inputs"]["artifacts"]] == ["failed.test_report.a1"]
    assert b"number * 2" in shop.git("show", f"{result['commit']}:src/pricing.py")
