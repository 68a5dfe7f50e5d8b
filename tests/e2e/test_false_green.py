"""Broken source that makes its tests seem to pass, through a whole stack: refused, nothing lands, and the bundle says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.git.repositories import MakeRepository
from tests.series import series

SOURCE = b"def price(number):\n    return number * 2\n"
TESTS = b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n"
TRICKS = {
    "at import": "import os\nos._exit(0)\n",
    "in a call": "import os\n\n\ndef price(number):\n    os._exit(0)\n",
}


@pytest.mark.parametrize("trick", series(TRICKS, "in a call"))
def test_source_that_ends_its_tests_with_success_does_not_land(
    stack: Stack, make_repository: MakeRepository, trick: str
) -> None:
    tool = f"open('src/pricing.py', 'a').write({TRICKS[trick]!r})\n".encode()
    files = {"src/pricing.py": SOURCE, "tests/test_pricing.py": TESTS, "tools/change.py": tool}
    repository = make_repository("shop", files=files)
    before = repository.git("for-each-ref")
    # The file is opened by name, or the review would refuse it before a test has run.
    words = ("--allow", "src", "--allow-tests", "src/pricing.py")
    code, result = stack.run(repository.path, *words, "--exec", "python tools/change.py", "--test", "python -m pytest -q")
    assert (code, result["status"], result["failure"]["code"]) == (1, "FAILED", "report_missing"), result
    assert repository.git("for-each-ref") == before
    bundle = Path(result["bundle"])
    tests = json.loads((bundle / "reports" / "test_report.json").read_bytes())
    (command,) = tests["commands"]
    assert (tests["status"], command["exit_code"], command["proof"]["framework"]) == ("PASS", 0, "pytest")
    assert not command["proof"].get("complete", False)
    assert stack.command("verify", result["bundle"]).returncode == 0
