"""The registry of one test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.egress.registry import Registry


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry({"/simple/demo/": b"index", "/file": b"content"}).serving() as registry:
        yield registry
