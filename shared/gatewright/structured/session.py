"""A task's access to its models: a gateway of its own on a socket of its own, and the client library on top.

The gateway owns the key, the routes, the budget, the counts and the records. The library is loaded for the first question, so a
role without questions does not pay for it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import ConfigurationError
from gatewright.models.cassettes import Playback, task_place
from gatewright.models.choice import DOCUMENT_APIS, api_of
from gatewright.models.policy import Api, LoadedModels, ModelRole, ModelsPolicy, load_models
from gatewright.models.records import CALLS, CASSETTE
from gatewright.secrets import SecretScanner
from gatewright.service.settings import ServiceSettings
from gatewright.structured.answers import ModelCallError
from gatewright.structured.asking import ModelAnswer, Turn
from gatewright.structured.recording import ConsultationCost
from gatewright.tasks.handler import TaskContext

if TYPE_CHECKING:
    from gatewright.models.gateway import ModelGateway

KEY_MISSING = "model_key_missing"
_BACKLOG = 64


class RoleModels:
    """Models that the operator's policy permits for a role. ``sockets``: folder for its sockets, instead of a temporary one.

    With ``playback`` no model is called: recorded answers are replayed, and no key is needed.
    """

    def __init__(
        self,
        role: ModelRole,
        loaded: LoadedModels | None,
        *,
        pool: str,
        sockets: Path | None = None,
        playback: Playback | None = None,
    ) -> None:
        self._playback = playback
        self._role: ModelRole = role
        self._loaded = loaded
        self._pool = pool
        self._sockets = sockets

    @classmethod
    def of(cls, role: ModelRole, settings: ServiceSettings, *, sockets: Path | None = None) -> RoleModels:
        """Load the models of a role from a process's settings.

        Raises:
            ConfigurationError: the policy of models cannot be read.
        """
        loaded = load_models(settings.policies) if role in settings.consult else None
        playback = Playback(settings.cassette) if settings.cassette is not None else None
        return cls(role, loaded, pool=settings.pool, sockets=sockets, playback=playback)

    @property
    def configured(self) -> bool:
        """Whether this role calls models. The pm calls one only for missing parts of a request: whether it can."""
        if self._loaded is None:
            return False
        return self._role != "pm" or self._playback is not None or has_key(self._loaded, self._role, self._pool)

    @asynccontextmanager
    async def session(
        self, budget: Budget | None, context: TaskContext, run_id: str, task_id: str, leave: TransferLeave | None = None
    ) -> AsyncIterator[ModelSession]:
        """Open the models of one task; their usage is reported to ``context``.

        Raises:
            ConfigurationError: no model can be called.
            DeniedError: policy refuses a model.
            MalformedError: a recording cannot be read.
        """
        # Imported late: it serves HTTP, and most tasks call no model.
        from gatewright.models.gateway import ModelGateway
        from gatewright.models.transfers import TransferGuard

        if self._loaded is None:
            raise ConfigurationError(f"the {self._role} is not set up to ask models (GATEWRIGHT_CONSULT)")
        policy = self._loaded.policy
        grant = policy.grant(self._role, pool=self._pool, budget=budget)
        api = _api_of(self._loaded, grant.default)
        task = task_place(run_id, task_id)
        playing = await asyncio.to_thread(self._playback.cassette, task) if self._playback is not None else None
        guard = TransferGuard(run_id, self._role, self._loaded.transfers, leave, context.spend)
        gateway = ModelGateway(policy, grant, spend=context.spend, clock=context.clock, task=task, playing=playing, guard=guard)
        try:
            with _listening(self._sockets) as (listening, path):
                async with gateway.serving(listening):
                    yield ModelSession(gateway, policy, api, grant.default, path)
        except BaseException:
            # Without an answer the calls are recorded anyway.
            gateway.recording.incomplete = True
            cassette = await asyncio.to_thread(gateway.recording.as_jsonl, SecretScanner())
            await context.leave([(CALLS, gateway.records.as_jsonl()), (CASSETTE, cassette)])
            raise


class ModelSession:
    """The models of one task; a ``Speaker``."""

    def __init__(self, gateway: ModelGateway, policy: ModelsPolicy, api: Api, model: str, path: str) -> None:
        self._gateway = gateway
        self._policy = policy
        self._api: Api = api
        self._model = model
        self._path = path

    async def answer(self, system: str, turns: Sequence[Turn]) -> ModelAnswer:
        """Return the model's answer.

        Raises:
            BudgetError: the budget is exhausted.
            ModelCallError: the call failed.
        """
        from gatewright.structured import layer

        self._gateway.check()
        async with layer.client_of(self._path) as client:
            try:
                text = await layer.one_answer(client, self._api, self._model, system, turns)
            except layer.LAYER_ERRORS as error:
                self._gateway.check()
                # The library treats some truncated replies, such as filtered ones, as errors.
                if self._gateway.records.last_ending is None or not self._cut_off():
                    raise self._error(layer.words_of(error)) from error
                text = ""
        return ModelAnswer(text, self._cut_off())

    def _cut_off(self) -> str:
        """Return why the last reply is incomplete; empty when it is complete."""
        # Imported late, like the gateway: most tasks call no model.
        from gatewright.models.apis.endings import NO_ENDING, is_complete

        ending = self._gateway.records.last_ending
        return "" if is_complete(self._api, ending) else ending or NO_ENDING

    @property
    def spent(self) -> ConsultationCost:
        """Usage so far, as counted by the gateway."""
        usage = self._gateway.usage
        calls = self._gateway.records.calls
        used = next((call.model_used for call in reversed(calls) if call.model_used), None)
        return ConsultationCost(
            used or self._model,
            usage.tokens,
            usage.cost_usd,
            self._gateway.records.as_jsonl(),
            self._gateway.recording,
            usage.unpriced,
            usage.incomplete,
        )

    def _error(self, words: str) -> ModelCallError:
        calls = self._gateway.records.calls
        last = calls[-1] if calls else None
        code = (last.refused if last is not None else None) or ModelCallError.code
        words = _missing_key(self._policy, self._gateway.grant.routes[self._model]) if code == KEY_MISSING else words
        return ModelCallError(f"the model {self._model} could not be asked: {words[:500]}", code=code)


def has_key(loaded: LoadedModels, role: ModelRole, pool: str | None = None) -> bool:
    """Return whether some model of the role's route can be called: its provider needs no key, or the key exists."""
    policy = loaded.policy
    for name in policy.route(role, pool):
        model = policy.model(name)
        provider = policy.provider(model.provider) if model is not None else None
        if provider is None or not set(provider.apis) & set(DOCUMENT_APIS):
            continue
        try:
            if provider.key is not None:
                provider.key.read()
        except ConfigurationError:
            continue
        return True
    return False


def _missing_key(policy: ModelsPolicy, route: Sequence[str]) -> str:
    """Return which key of a route is missing, and where it was searched."""
    for name in route:
        model = policy.model(name)
        provider = policy.provider(model.provider) if model is not None else None
        if provider is not None and provider.key is not None:
            try:
                provider.key.read()
            except ConfigurationError as error:
                return error.message
    return KEY_MISSING


def _api_of(loaded: LoadedModels, name: str) -> Api:
    api = api_of(loaded.policy, name, DOCUMENT_APIS)
    if api is None:
        words = f"the model {name} is served by no API that documents are asked for: {', '.join(DOCUMENT_APIS)}"
        raise ConfigurationError(words, code="model_api_unknown")
    return api


@contextmanager
def _listening(folder: Path | None) -> Iterator[tuple[socket.socket, str]]:
    """Yield a listening Unix socket and a path to it. It is below ``folder``, however long that path is."""
    if folder is None:
        from gatewright.models.gateway import private_socket

        with private_socket() as (listening, place):
            yield listening, str(place)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{secrets.token_hex(8)}.sock"
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A socket address holds about a hundred characters, so the folder is addressed by its descriptor.
        path = f"/proc/self/fd/{handle}/{name}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            made.bind(path)
            made.listen(_BACKLOG)
            yield made, path
    finally:
        (folder / name).unlink(missing_ok=True)
        os.close(handle)
