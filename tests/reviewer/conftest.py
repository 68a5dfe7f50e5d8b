"""A repository to be reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.handler_fixture import HandlerFixture, make_handler_fixture

FILES = {"src/a.py": b"x = 1\n", "tests/test_a.py": b"def test_a():\n    assert 1\n"}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    return make_handler_fixture(tmp_path, FILES)
