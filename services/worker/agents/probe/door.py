"""The model gateway in front of the scripted model, as it stands in front of providers: what passes here passes there."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gatewright.models.gateway import GatewayLimits, ModelGateway
from gatewright.models.policy import ModelEntry, ModelsPolicy, Provider, Route
from gatewright.services.worker.agents.probe.scripted_model import ScriptedModel
from gatewright.services.worker.agents.probe.trial import MODEL

#: A scripted failure is not worth waiting for.
_LIMITS: Final = GatewayLimits(attempts=2, first_wait=0.05, longest_wait=0.1)


class GatewayDoor:
    """Server of the sandbox's socket (``trial.Door``) that leads to ``model`` through a gateway of its own."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """See ``Door.serving``."""
        with socket.create_server(("127.0.0.1", 0)) as scripted:
            policy = _policy(f"http://127.0.0.1:{scripted.getsockname()[1]}")
            gateway = ModelGateway(policy, policy.grant("worker"), limits=_LIMITS)
            async with self._model.serving(scripted), gateway.serving(listening):
                yield


def _policy(base_url: str) -> ModelsPolicy:
    # One provider of every API, so that every agent finds its model under the same name.
    provider = Provider(name="scripted", apis=("responses", "chat_completions", "messages", "gemini"), base_url=base_url)
    model = ModelEntry(name=MODEL, provider=provider.name, price=None)
    route = Route(role="worker", models=(MODEL,))
    return ModelsPolicy(version="1", providers=(provider,), models=(model,), routes=(route,))
