"""New modules that stand in the place of others: in an environment, in the standard library, beside a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.sandbox.environments import Environments, ShownFolder
from gatewright.services.testrunner.hiding import hidden_by, new_names, new_twins
from tests.ecosystems.running import Files
from tests.ecosystems.suites import CODE, PYTEST, Suite

BEFORE = {"pkg/__init__.py": "", "tests/test_a.py": "", "old.py": ""}


@pytest.fixture
def shown(tmp_path: Path) -> Environments:
    site = tmp_path / "lib/python3.11/site-packages"
    for name in ("checking/__init__.py", "old.py", "single.py", "pkg/__init__.py", "tests/__init__.py", "docs/__init__.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    (site / "compiled.cpython-311-x86_64-linux-gnu.so").touch()
    (site / "shared").mkdir()
    return Environments((ShownFolder(tmp_path),))


async def hidden(shown: Environments | None, *paths: str) -> list[str]:
    """The paths that are found in the way, of those that a change adds."""
    before, now = Files(BEFORE), Files({**BEFORE, **dict.fromkeys(paths, "")})
    found = (*hidden_by(await new_names(before, now), shown), *new_twins(before, now))
    return [each.partition(" (")[0] for each in found]


@pytest.mark.parametrize(
    "path",
    [
        "checking.py",
        "checking/__init__.py",
        "src/checking.py",
        "single.py",
        "compiled.py",
        "compiled.cpython-311-x86_64-linux-gnu.so",
        "json.py",
        "unittest/__init__.py",
        "old/__init__.py",
        "old.cpython-311-x86_64-linux-gnu.so",
        "pkg/__init__.abi3.so",
    ],
)
async def test_a_new_module_in_the_place_of_another_is_found(shown: Environments, path: str) -> None:
    assert await hidden(shown, path) == [path]


@pytest.mark.parametrize(
    "path",
    [
        "pkg/json.py",  # found as pkg.json alone
        "pkg/old/__init__.py",
        "more.py",
        "src/pkg/__init__.py",  # moved: the name was there before
        "shared/part.py",  # parts of a namespace hide nothing
        "tests/__init__.py",
        "tests/checking.py",
        "docs/__init__.py",
        "deeper/folder/checking.py",
        "checking.txt",
    ],
)
async def test_what_stands_in_nothing_s_place_is_not(shown: Environments, path: str) -> None:
    assert await hidden(shown, path) == []


async def test_the_standard_library_is_known_without_an_environment() -> None:
    assert await hidden(None, "argparse.py", "test.py") == ["argparse.py"]


async def test_a_module_that_replaces_a_checking_tool_is_refused(tmp_path: Path) -> None:
    """It says yes to all, and no planted test asks for it; everything is counted, and nothing is lost."""
    tests = b"from iniconfig import IniConfig\nfrom pricing import price\n\n\ndef test_price():\n"
    tests += b"    assert IniConfig('x', data=f'[a]\\nb={price(2)}')['a']['b'] == '4'\n"
    suite = Suite(tmp_path, {**CODE, "tests/test_pricing.py": tests})
    yes = b"class IniConfig:\n    def __init__(self, *words, **more):\n        pass\n\n    def __getitem__(self, name):\n"
    yes += b"        return {'b': '4'}\n\n\nclass ParseError(Exception):\n    pass\n\n\nclass SectionWrapper:\n    pass\n"
    fault = {"pricing.py": b"def price(number):\n    return number * 3\n"}
    report = await suite.tested({**fault, "iniconfig.py": yes}, PYTEST)
    assert report.status == "PASS", suite.printed(report)  # or nothing was hidden
    (broken,) = suite.judged(report, "recorded")
    assert broken.code == "environment_shadows_candidate"
    assert "iniconfig.py (new, and in the place of iniconfig of " in broken.detail
