"""Models by script, reached through the real gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gatewright.models.policy import load_models
from gatewright.structured.session import RoleModels
from tests.models.provider import KEY, ScriptedProvider
from tests.models.wire_forms import Api

MakeModels = Callable[..., RoleModels]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def make_models(provider: ScriptedProvider, tmp_path: Path) -> MakeModels:
    """The models of a role: ``script`` played by the model ``name``."""

    def make(
        script: str,
        role: str = "techlead",
        name: str = "scripted",
        sockets: Path | None = None,
        openai: tuple[Api, ...] = ("responses", "chat_completions"),
    ) -> RoleModels:
        policy = provider.policy(script, role=role, prices={"input": 1, "output": 2}, openai=openai)
        policy["routes"] = [{"role": role, "models": [name]}]
        (tmp_path / "models.json").write_bytes(msgspec.json.encode(policy))
        return RoleModels(role, load_models(tmp_path), pool="default", sockets=sockets)  # type: ignore[arg-type]

    return make
