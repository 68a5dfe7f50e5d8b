"""The list of slow tests names tests that exist, and is made from a log of pytest."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.reason_codes import ROOT
from tests.selection import SLOW_TESTS

LISTED = SLOW_TESTS.read_text("utf-8").split()
LOG = """\
12.51s call     tests/git/test_a.py::test_one[first-x]
0.60s call     tests/git/test_a.py::test_one[second]
0.50s call     tests/bus/test_b.py::test_two
0.49s call     tests/bus/test_b.py::test_three
9.00s setup    tests/bus/test_b.py::test_four
"""


def test_every_listed_test_exists() -> None:
    for listed in LISTED:
        path, name, *_ = listed.split("::")
        defined = rf"^(?:(?:async )?def |class )?{re.escape(name)}(?:\(| = )"
        assert re.search(defined, (ROOT / path).read_text("utf-8"), re.MULTILINE), listed


def test_the_list_is_sorted_and_has_no_copies() -> None:
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize(("log", "listed"), [(LOG, "tests/bus/test_b.py::test_two\ntests/git/test_a.py::test_one\n"), ("", "")])
def test_slow_calls_of_a_log_are_listed_once(log: str, listed: str) -> None:
    done = subprocess.run(
        (sys.executable, ".ci/slow_tests.py"), cwd=ROOT, input=log, capture_output=True, text=True, check=True
    )
    assert done.stdout == listed
