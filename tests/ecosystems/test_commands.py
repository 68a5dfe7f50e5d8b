"""Which commands are recognised, and where tests are planted."""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping

import pytest

from gatewright.ecosystems.costs import COSTS
from gatewright.ecosystems.python.frameworks import Pytest
from gatewright.ecosystems.registry import FRAMEWORKS, recognise


class Tree:
    """Files in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._files)

    async def read(self, path: str) -> bytes | None:
        return self._files[path].encode() if path in self._files else None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("pytest", "pytest"),
        ("python -m pytest -q", "pytest"),
        ("python3.12 -X dev -W error -m pytest", "pytest"),
        (".venv/bin/python -m pytest", "pytest"),
        ("coverage run -m pytest", "pytest"),
        ("python -m coverage run --source=src -m pytest tests", "pytest"),
        ("uv run --with x pytest -x", "pytest"),
        ("uv run --group dev --no-group docs coverage run --branch -m pytest", "pytest"),
        ("poetry run pytest --cov=src -p no:cacheprovider", "pytest"),
        ("pdm run pytest -n auto", "pytest"),
        ("rye run pytest", "pytest"),
        ("env A=1 pytest", "pytest"),
        ("poetry run python -m unittest", "unittest"),
        ("python -m unittest discover -s tests", "unittest"),
        ("python check.py", "unittest"),
        ("python other.py", None),
        ("python -I -m pytest", None),
        ("python -E -m pytest", None),
        ("python -c pytest", None),
        ("ruff check", None),
        ("grep pytest README", None),
        ("echo pytest", None),
    ],
)
async def test_a_command_is_recognised_by_what_it_starts(command: str, name: str | None) -> None:
    tree = Tree({"check.py": "import unittest\nunittest.main()\n", "other.py": "print(1)\n"})
    found = await recognise(shlex.split(command), tree)
    assert (found.name if found is not None else None) == name


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        ("pytest", {"tests", "tests/unit", "more"}),
        ("pytest tests/unit", {"tests/unit"}),
        ("pytest tests/unit/test_b.py::test_x", {"tests/unit"}),
        ("pytest -k something", {"tests", "tests/unit", "more"}),
    ],
)
async def test_tests_are_planted_beside_those_that_the_command_looks_at(command: str, folders: set[str]) -> None:
    names = ("tests/test_a.py", "tests/unit/test_b.py", "more/test_c.py", "tests/data/test_d.py", "build/test_e.py")
    tree = Tree(dict.fromkeys(names, ""))
    found = set()
    for seed in range(40):
        planted = await Pytest().sentinel(command.split(), tree, random.Random(seed))  # noqa: S311 - repeatable
        assert planted is not None
        (path,) = planted.files
        assert planted.failing.startswith(f"{path}::test_")
        assert path not in tree.paths
        found.add(path.rpartition("/")[0])
    assert found == folders


async def test_tests_are_named_as_the_settings_have_it() -> None:
    tree = Tree(
        {
            "pytest.ini": "[pytest]\npython_files = check_*.py\npython_functions = verify_*\ntestpaths = checks\n",
            "checks/check_a.py": "def verify_a(): pass\n",
            "tests/test_a.py": "",
        }
    )
    planted = await Pytest().sentinel(["pytest"], tree, random.Random(1))  # noqa: S311 - repeatable
    assert planted is not None
    (path,) = planted.files
    assert path.startswith("checks/check_")
    assert planted.failing.startswith(f"{path}::verify_")


async def test_where_there_are_no_tests_there_is_no_place_to_plant_one() -> None:
    assert await Pytest().sentinel(["pytest"], Tree({"app.py": ""}), random.Random(1)) is None  # noqa: S311 - repeatable


def test_every_framework_documents_its_costs_and_blind_spots() -> None:
    assert COSTS.keys() == {framework.name for framework in FRAMEWORKS}
