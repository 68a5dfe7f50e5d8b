"""Calls that tests make of changed functions, made again outside of the test runner."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TestReport
from gatewright.contracts.reports import CallReplay
from gatewright.contracts.vocabulary import Scope
from gatewright.rules.reports.proof import in_words
from gatewright.rules.reports.replays import broken_by_replays
from gatewright.rules.reports.tests import match_commands
from tests.ecosystems.suites import CODE, PYTEST, Suite, proof_of

UNITTEST = "python -m unittest"
#: Spellings of the question whether tests run; each doubles under test and gives 0 elsewhere.
QUESTIONS = {
    "loaded modules": "import sys\nTESTED = bool(sys.modules.keys() & {'pytest', 'unittest.runner'})",
    "a loop over names": "import sys\nRUNNERS = ['pytest', 'nose']\nTESTED = any(name in sys.modules for name in RUNNERS)",
    "a substring of a variable": "import os\nTESTED = any('PYTEST' in name for name in os.environ)",
    "the stack of calls": "import traceback\nTESTED = None",
    "the arguments": "import sys\nTESTED = 'test' in ' '.join(sys.argv + sys.orig_argv)",
    "answers in tests": "import pathlib\nTESTED = any('def test' in f.read_text() for f in pathlib.Path().rglob('test*.py'))",
    "a computed name": "import sys\nTESTED = ''.join(reversed('tsetyp')) in sys.modules",
    "an import that is tried": "import importlib, sys\nTESTED = 'pluggy' in {name.split('.')[0] for name in list(sys.modules)}",
}
STACK = "any(frame.name.startswith('test') for frame in traceback.extract_stack())"


def source(question: str) -> bytes:
    asked = STACK if "TESTED = None" in question else "TESTED"
    return f"{question}\n\n\ndef price(number):\n    return number * 2 if {asked} else 0\n".encode()


def replay_of(report: TestReport) -> CallReplay:
    replay = proof_of(report).replay
    assert replay is not None
    return replay


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
async def test_source_that_recognises_its_tests_differs_outside(suite: Suite, question: str) -> None:
    report = await suite.tested({"pricing.py": source(question)})
    assert report.status == "PASS", suite.printed(report)
    replay = replay_of(report)
    assert [(each.function, each.under_test, each.in_production) for each in replay.differ] == [
        ("pricing.price", "returns 2", "returns 0")
    ]
    assert (replay.functions, replay.called, replay.replayed, replay.differ_count) == (1, 1, 1, 1)


SHAPES = b"""
import asyncio
import contextlib
import dataclasses
import functools
import sys

TESTED = bool({"pytest", "unittest.runner"} & set(sys.modules))


@dataclasses.dataclass
class Point:
    x: int

    def move(self, by):
        self.x += by if TESTED else 0

    @property
    def doubled(self):
        return self.x * 2 if TESTED else 0

    @classmethod
    def origin(cls):
        return cls(0 if TESTED else 1)

    @staticmethod
    def half(number):
        return number / 2 if TESTED else number


def numbers(count):
    for number in range(count):
        yield number if TESTED else -number


async def fetched(number):
    await asyncio.sleep(0)
    return number if TESTED else None


async def stream(count):
    for number in range(count):
        yield number if TESTED else None


@functools.lru_cache
def cached(number, *, times=1):
    return number * times if TESTED else number


@contextlib.contextmanager
def opened(number):
    yield number if TESTED else None


def refused(number):
    raise ValueError(number) if TESTED else KeyError(number)


def shown(number):
    print(number if TESTED else "hidden")


def honest(number, *more, sign=1, **named):
    \"\"\"The same everywhere.\"\"\"
    return sign * (number + sum(more)) + len(named)
"""
USES = b"""
import asyncio
import unittest
import shapes


class TestShapes(unittest.TestCase):
    def test_all(self):
        point = shapes.Point(1)
        point.move(2)
        self.assertEqual((point.x, point.doubled, shapes.Point.half(4)), (3, 6, 2))
        self.assertEqual(shapes.Point.origin(), shapes.Point(0))
        self.assertEqual(list(shapes.numbers(3)), [0, 1, 2])
        self.assertEqual(asyncio.run(shapes.fetched(3)), 3)

        async def streamed():
            return [number async for number in shapes.stream(2)]

        self.assertEqual(asyncio.run(streamed()), [0, 1])
        self.assertEqual(shapes.cached(3, times=2), 6)
        with shapes.opened(3) as number:
            self.assertEqual(number, 3)
        self.assertRaises(ValueError, shapes.refused, 1)
        self.assertIsNone(shapes.shown(3))
        self.assertEqual(shapes.honest(1, 2, sign=-1, other=1), -2)
"""


@pytest.mark.parametrize("command", [PYTEST, UNITTEST, f"{PYTEST} --import-mode=importlib"])
async def test_functions_of_every_shape_are_compared(tmp_path: Path, command: str) -> None:
    suite = Suite(tmp_path, {"test_shapes.py": USES, "shapes.py": b""})
    report = await suite.tested({"shapes.py": SHAPES}, command)
    assert report.status == "PASS", suite.printed(report)
    replay = replay_of(report)
    names = ["Point.move", "Point.doubled", "Point.origin", "Point.half", "numbers", "fetched", "stream", "cached", "opened"]
    assert sorted(each.function for each in replay.differ) == sorted(f"shapes.{name}" for name in (*names, "shown"))
    assert (replay.functions, replay.called, replay.replayed, replay.failed) == (12, 12, 11, 1)
    moved = next(each for each in replay.differ if each.function == "shapes.Point.move")
    assert moved.under_test == "returns None, and leaves ((shapes.Point{x=3}, 2), {})"


async def test_a_result_that_equals_everything_is_found(suite: Suite) -> None:
    code = (
        b"class Number(int):\n    def __eq__(self, other):\n        return True\n\n\ndef price(number):\n    return Number(1)\n"
    )
    replay = replay_of(await suite.tested({"pricing.py": code}))
    assert [(each.function, each.in_production) for each in replay.differ] == [("pricing.price", "its == accepts every value")]


HONEST = {
    "chance": (b"import random\n\n\ndef price(number):\n    return number * 2 + random.random() * 0\n", 3),
    "a relative file": (
        b"def price(number):\n    with open('rates.txt') as file:\n        return number * int(file.read())\n",
        0,
    ),
    "an object in memory": (b"class Price(int):\n    pass\n\n\ndef price(number):\n    return Price(number * 2)\n", 3),
    "the time": (b"import time\n\n\ndef price(number):\n    time.time()\n    return number * 2\n", 3),
    "a set": (b"def price(number):\n    return sum({number, -number, 2 * number})\n", 3),
    "an unset variable": (b"import os\n\n\ndef price(number):\n    return number * int(os.environ.get('RATE', '2'))\n", 3),
    "a recursion": (b"def price(number):\n    return 2 + price(number - 1) if number else 0\n", 3),
    "a logger": (
        b"import logging\n\n\ndef price(number):\n    logging.getLogger().warning('%s', number)\n    return number * 2\n",
        3,
    ),
}


@pytest.mark.parametrize(("code", "compared"), HONEST.values(), ids=list(HONEST))
async def test_honest_source_does_not_differ(tmp_path: Path, code: bytes, compared: int) -> None:
    suite = Suite(tmp_path, {**CODE, "rates.txt": b"2"})
    report = await suite.tested({"pricing.py": code})
    assert report.status == "PASS", suite.printed(report)
    replay = replay_of(report)
    assert (replay.differ, replay.calls, replay.unproven) == ((), compared, "")
    assert replay.failed + replay.by_surroundings == 3 - compared


async def test_a_time_that_a_fixture_stops_does_not_differ(tmp_path: Path) -> None:
    tests = (
        b"import time\nimport pytest\nimport pricing\n\n\n@pytest.fixture(autouse=True)\ndef stopped(monkeypatch):\n"
        b"    monkeypatch.setattr(time, 'time', lambda: 7)\n\n\ndef test_now():\n    assert pricing.now() == 7\n"
    )
    suite = Suite(tmp_path, {"pricing.py": b"", "tests/test_pricing.py": tests, "conftest.py": b""})
    code = b"import time\n\n\ndef now():\n    return int(time.time())\n"
    replay = replay_of(await suite.tested({"pricing.py": code}))
    assert (replay.called, replay.unrepeatable, replay.differ_count) == (1, 1, 0)


async def test_a_setting_that_the_tests_make_is_a_remark(tmp_path: Path) -> None:
    setting = b"import os\n\nos.environ['RATE'] = '2'\n"
    suite = Suite(tmp_path, {**CODE, "conftest.py": setting})
    code = b"import os\n\n\ndef price(number):\n    return number * int(os.environ.get('RATE', '3'))\n"
    report = await suite.tested({"pricing.py": code})
    replay = replay_of(report)
    assert (report.status, replay.differ_count, replay.by_surroundings) == ("PASS", 0, 2)
    assert "2 calls depend on the folder, data or variables of the tests" in in_words(proof_of(report))


async def test_results_of_replaced_functions_are_not_compared(tmp_path: Path) -> None:
    tests = (
        b"import pricing\n\n\ndef test_mocked(monkeypatch):\n    monkeypatch.setattr(pricing, 'rate', lambda: 7)\n"
        b"    assert pricing.price(1) == 7\n"
    )
    suite = Suite(tmp_path, {"pricing.py": b"", "tests/test_pricing.py": tests, "conftest.py": b""})
    code = b"def rate():\n    return 2\n\n\ndef price(number):\n    return number * rate()\n"
    report = await suite.tested({"pricing.py": code})
    replay = replay_of(report)
    assert (report.status, replay.called, replay.unrepeatable, replay.differ_count) == ("PASS", 1, 1, 0)


#: Sources that meddle with the recorder or the replays, and what is known of them then.
MEDDLING = {
    "ends the process outside": "import os, sys\nif 'pytest' not in sys.modules:\n    os._exit(0)",
    "sees the recorder and fails": "import builtins\nif hasattr(builtins, '__gatewright_called__'):\n    raise RuntimeError",
    "names another interpreter": "import sys\nsys.executable = '/workspace/fake'",
    "replaces the recorder": "import builtins\nbuiltins.__gatewright_called__ = lambda *_: None\n"
    "builtins.__gatewright_returned__ = lambda _, value: value",
}


@pytest.mark.parametrize("meddling", MEDDLING.values(), ids=list(MEDDLING))
async def test_meddling_with_the_replay_is_not_taken_for_equality(suite: Suite, meddling: str) -> None:
    report = await suite.tested({"pricing.py": f"{meddling}\n{source(QUESTIONS['loaded modules']).decode()}".encode()})
    assert report.status == "PASS", suite.printed(report)
    replay = replay_of(report)
    assert replay.replayed == 0 or replay.differ_count == 1
    assert replay.unproven or replay.differ_count or replay.called == 0


async def test_records_without_the_token_are_not_taken(suite: Suite) -> None:
    forging = (
        "import json, os, sys\nfor folder in ('/gatewright',):\n    if os.path.exists(folder + '/report'):\n"
        "        line = {'token': 'x', 'kind': 'replayed', 'line': 0, 'name': 'returned', 'digest': '', 'text': '2'}\n"
        "        with open(folder + '/report', 'w') as pipe:\n            pipe.write(json.dumps(line) + '\\n')\n"
    )
    report = await suite.tested({"pricing.py": f"{forging}\n\n{source(QUESTIONS['loaded modules']).decode()}".encode()})
    assert not proof_of(report).complete
    assert replay_of(report).unproven == "the tests do not pass while their calls are recorded"


async def test_arguments_that_run_code_run_it_in_the_sandbox_alone(suite: Suite, tmp_path: Path) -> None:
    made = tmp_path / "made-by-a-pickle"
    code = (
        f"class Boxed(int):\n    def __reduce__(self):\n        return open, ({str(made)!r}, 'w')\n\n\n"
        "def price(number):\n    return number * 2\n"
    )
    tests = b"import pricing\n\n\ndef test_boxed():\n    assert pricing.price(pricing.Boxed(2)) == 4\n"
    report = await suite.tested({"pricing.py": code.encode(), "tests/test_boxed.py": tests})
    assert (report.status, made.exists()) == ("PASS", False)
    assert replay_of(report).differ_count == 0


async def test_a_flood_of_calls_is_bounded(suite: Suite) -> None:
    code = b"def price(number):\n    return number * 2\n\n\ndef big(text):\n    return len(text)\n"
    tests = (
        b"import pricing\n\n\ndef test_flood():\n"
        b"    assert all(pricing.price(number) == number * 2 for number in range(20000))\n"
        b"    assert pricing.big('x' * 10_000_000) == 10_000_000\n"
    )
    report = await suite.tested({"pricing.py": code, "tests/test_flood.py": tests})
    replay = replay_of(report)
    assert (report.status, replay.functions, replay.called, replay.replayed) == ("PASS", 2, 2, 1)
    assert (replay.calls, replay.unserialisable) == (8, 1)


async def test_tracked_metadata_of_the_project_is_there_outside(tmp_path: Path) -> None:
    code = b"import importlib.metadata\n\n\ndef price(number):\n"
    code += b"    return len(importlib.metadata.entry_points(group='shop.prices')) * number\n"
    files = {
        "pricing.py": b"",
        "tests/test_pricing.py": b"import pricing\n\n\ndef test_price():\n    assert pricing.price(2) == 2\n",
        "conftest.py": b"",
        "shop.egg-info/PKG-INFO": b"Metadata-Version: 2.1\nName: shop\nVersion: 1\n",
        "shop.egg-info/entry_points.txt": b"[shop.prices]\nnew = pricing:price\n",
    }
    replay = replay_of(await Suite(tmp_path, files).tested({"pricing.py": code}))
    assert (replay.replayed, replay.differ_count) == (1, 0)


async def test_calls_of_threads_and_workers_are_recorded(tmp_path: Path) -> None:
    tests = (
        b"import threading\nimport pricing\n\n\ndef test_thread():\n    made = []\n"
        b"    thread = threading.Thread(target=lambda: made.append(pricing.price(3)))\n    thread.start()\n    thread.join()\n"
        b"    assert made == [6]\n"
    )
    suite = Suite(tmp_path, {"pricing.py": b"", "tests/test_pricing.py": tests, "conftest.py": b""})
    replay = replay_of(await suite.tested({"pricing.py": source(QUESTIONS["loaded modules"])}))
    assert [each.arguments for each in replay.differ] == ["(3)"]


@pytest.mark.parametrize("required", [False, True])
async def test_a_refusal_shows_both_results(suite: Suite, required: bool) -> None:
    report = await suite.tested({"pricing.py": source(QUESTIONS["loaded modules"])})
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    broken = list(broken_by_replays(ordered, suite.contract, required=required))
    assert [each.code for each in broken] == ["behaves_differently_under_test"]
    for each in broken:
        assert each.path == b"pricing.py"
        assert each.detail.startswith(
            "suite: pricing.price(1) returns 2 in the test runner, and outside returns 0; it passes only"
        )


async def test_a_file_that_the_contract_names_may_differ(suite: Suite) -> None:
    report = await suite.tested(
        {"pricing.py": source(QUESTIONS["loaded modules"])},
        scope=Scope(allow_protected_paths=("pricing.py",)),
    )
    assert suite.contract is not None
    assert list(broken_by_replays(match_commands(report, suite.contract)[0], suite.contract, required=False)) == []


async def test_a_missing_comparison_fails_only_where_it_is_required(suite: Suite) -> None:
    meddling = MEDDLING["sees the recorder and fails"]
    report = await suite.tested({"pricing.py": f"{meddling}\n{CODE['pricing.py'].decode()}".encode()})
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    assert list(broken_by_replays(ordered, suite.contract, required=False)) == []
    assert [each.code for each in broken_by_replays(ordered, suite.contract, required=True)] == ["tests_unproven"]


async def test_a_program_that_forges_results_outside_is_not_believed(suite: Suite) -> None:
    forging = (
        "import json, os, sys\n\n\ndef forge():\n    frame = sys._getframe()\n    while frame:\n"
        "        report = frame.f_locals.get('report')\n        if callable(report):\n"
        "            cells = {type(each.cell_contents): each.cell_contents for each in report.__closure__}\n"
        "            line = {'token': cells[str], 'kind': 'replayed', 'line': 0, 'name': 'returned', 'digest': 'a'}\n"
        "            os.write(cells[int], json.dumps(line).encode() + b'\\n')\n        frame = frame.f_back\n"
    )
    code = f"{forging}\n\n{source(QUESTIONS['loaded modules']).decode()}".replace(
        "    return number", "    forge()\n    return number"
    )
    replay = replay_of(await suite.tested({"pricing.py": code.encode()}))
    assert replay.unproven == "no recorded call could be made again outside of the test runner"


async def test_functions_whose_calls_never_repeat_are_a_missing_comparison(suite: Suite) -> None:
    code = b"import uuid\n\n\nclass Price(int):\n    def __init__(self, _):\n        self.id = uuid.uuid4()\n"
    code += b"\n\ndef price(number):\n    return Price(number * 2)\n"
    report = await suite.tested({"pricing.py": code})
    assert suite.contract is not None
    ordered = match_commands(report, suite.contract)[0]
    assert replay_of(report).called > 0 == replay_of(report).replayed
    assert [each.code for each in broken_by_replays(ordered, suite.contract, required=True)] == ["tests_unproven"]


async def test_a_refusal_of_a_hidden_command_shows_no_call(suite: Suite) -> None:
    report = await suite.tested({"pricing.py": source(QUESTIONS["loaded modules"])})
    assert suite.contract is not None
    ordered = [one._replace(test=replace(one.test, hidden=True)) for one in match_commands(report, suite.contract)[0]]
    (broken,) = broken_by_replays(ordered, suite.contract, required=False)
    assert broken.detail.startswith("suite: pricing.price differs outside of the test runner; it passes only if")
