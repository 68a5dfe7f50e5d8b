"""A repository to be reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.handler_fixture import Desk, make_desk

FILES = {"src/a.py": b"x = 1\n", "tests/test_a.py": b"def test_a():\n    assert 1\n"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return make_desk(tmp_path, FILES)
