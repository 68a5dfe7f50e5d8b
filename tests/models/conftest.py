"""A scripted provider, and gateways before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.provider import KEY, ScriptedProvider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    """Without scripts; the key of its policies is set."""
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider() as running:
        yield running
