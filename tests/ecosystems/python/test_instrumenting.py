"""The variables that a test command of Python sees."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.port import Purpose, ReporterOrder
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.python.instrumenting import python_instruments
from tests.ecosystems.python.trees import tree_of

ORDER = ReporterOrder(Purpose.ALL, "token", "/additions/pipe")


@pytest.mark.parametrize(
    ("files", "path", "types"),
    [
        (("src/pkg/__init__.py", "tests/test_a.py"), "@FOLDER@:/workspace/src", "/workspace/src"),
        (("pkg/__init__.py", "tests/test_a.py"), "@FOLDER@:/workspace", None),
        (
            ("pkg/__init__.py", "pyproject.toml", "more/pyproject.toml", "more/src/other/__init__.py"),
            "@FOLDER@:/workspace:/workspace/more/src",
            "/workspace/more/src",
        ),
    ],
)
async def test_type_checkers_that_tests_start_find_the_candidate_as_python_does(
    files: tuple[str, ...], path: str, types: str | None
) -> None:
    variables = python_instruments(ORDER, await import_roots(tree_of(*files)), {}).variables
    assert variables["PYTHONPATH"] == path
    assert variables.get("MYPYPATH") == types
