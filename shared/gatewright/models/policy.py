"""``models.json``: the providers of models, the models, what they cost, and which of them a role may use, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from gatewright.contracts.vocabulary import Budget
from gatewright.errors import DeniedError, MalformedError
from gatewright.models.prices import Price
from gatewright.models.transfers import TRANSFERS_FILE, TransfersPolicy
from gatewright.policy_files import KeyReference, PolicyFile, PolicyModel


@dataclass(frozen=True, slots=True)
class ModelGrant:
    """``routes``: by each requestable name, the models to try, in order; the first is the default.

    ``paths`` are literal texts of this run (a home, a folder) in requests, each with its word in the canonical form: a
    cassette from another place still matches.
    """

    role: str
    routes: Mapping[str, tuple[str, ...]]
    budget: Budget = field(default_factory=Budget)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def default(self) -> str:
        """Return the default model."""
        return next(iter(self.routes))


#: The ways of talking to a model: OpenAI's Responses and chat completions, Anthropic's Messages, Google's generateContent.
Api = Literal["responses", "chat_completions", "messages", "gemini"]
#: The roles that may call models. The gatekeeper and the test runner never do.
ModelRole = Literal["pm", "techlead", "worker", "reviewer"]

#: Headers that the gateway writes itself; a policy cannot.
_OWN_HEADERS = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "proxy-authorization", "cookie", "host", "content-length", "content-type"}
    | {"transfer-encoding", "connection", "accept-encoding", "accept", "expect", "upgrade", "te", "trailer"}
)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_NAME = r"^[a-z0-9][a-z0-9-]{0,31}$"
_MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"


class Provider(PolicyModel):
    """A service that has models. ``base_url`` is the prefix of each API's path, as in its vendor's own clients.

    ``server_tools`` are types of tools that the provider itself runs (``web_search``, ...), and ``fields`` top-level fields
    of a request, permitted in addition to the built-in lists; none by default.
    """

    name: str = Field(pattern=_NAME)
    apis: tuple[Api, ...] = Field(min_length=1)
    base_url: str = Field(max_length=2000)
    key: KeyReference | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    ca_file: Path | None = None
    proxy: str | None = Field(default=None, max_length=2000)
    server_tools: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @field_validator("base_url", "proxy")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        if address is None:
            return None
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("an address is http(s)://HOST[:PORT][/PATH], with no user, query or fragment")
        return address.rstrip("/")

    @field_validator("headers")
    @classmethod
    def _no_own_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not name.replace("-", "").isalnum() or not name.isascii() or not value.isprintable() or not value.isascii():
                raise ValueError(f"{name!r} is no header, or its value holds characters that none has")
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"{name} is written by the gateway; a key is given by reference")
        return headers

    @model_validator(mode="after")
    def _no_key_in_the_clear(self) -> Provider:
        parts = urlsplit(self.base_url)
        if self.key is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError(f"{self.name}: a key is sent over https, or to this host alone")
        return self


class ModelEntry(PolicyModel):
    """A model as roles and agents name it, and as its provider does (``upstream``; by default the same).

    ``price`` is in US dollars for a million tokens; null means that it is not known. ``context`` is how many tokens it reads.
    """

    name: str = Field(pattern=_MODEL_NAME)
    provider: str = Field(pattern=_NAME)
    upstream: str | None = Field(default=None, pattern=_MODEL_NAME)
    price: Price | None
    context: int | None = Field(default=None, gt=0)

    @property
    def upstream_name(self) -> str:
        return self.upstream or self.name


class Route(PolicyModel):
    """The models of a role in order: the first by default, later ones as substitutes.

    With ``pool`` the route is for that pool of the role only, and takes precedence over the one without.
    """

    role: ModelRole
    pool: str | None = Field(default=None, min_length=1, max_length=64)
    models: tuple[str, ...] = Field(min_length=1, max_length=128)


class ModelsPolicy(PolicyModel):
    # A key that was written into the file by mistake is not repeated in a message.
    model_config = ConfigDict(hide_input_in_errors=True)

    version: Literal["1"]
    #: Whether requests and replies are kept in the bundle, without secrets; false: only their digests.
    keep_texts: bool = True
    providers: tuple[Provider, ...]
    models: tuple[ModelEntry, ...]
    routes: tuple[Route, ...]

    @model_validator(mode="after")
    def _check_unique_names(self) -> ModelsPolicy:
        """Check that every name is unique and known."""
        _check_unique("provider", (each.name for each in self.providers))
        _check_unique("model", (each.name for each in self.models))
        _check_unique("route", (f"{each.role}, {each.pool}" for each in self.routes))
        providers = {each.name for each in self.providers}
        for model in self.models:
            if model.provider not in providers:
                raise ValueError(f"the model {model.name} names {model.provider}, which is no provider")
        known = {each.name for each in self.models}
        for route in self.routes:
            _check_unique(f"model in the route of {route.role}", route.models)
            for name in route.models:
                if name not in known:
                    raise ValueError(f"the route of {route.role} names {name}, which is no model")
        return self

    def model(self, name: str) -> ModelEntry | None:
        return next((each for each in self.models if each.name == name), None)

    def provider(self, name: str) -> Provider | None:
        return next((each for each in self.providers if each.name == name), None)

    def route(self, role: ModelRole, pool: str | None = None) -> tuple[str, ...]:
        """Return the models of a role in order, from its pool's own route if there is one. Empty without a route."""
        for wanted in (pool, None):
            for route in self.routes:
                if route.role == role and route.pool == wanted:
                    return route.models
        return ()

    def grant(
        self,
        role: ModelRole,
        *,
        pool: str | None = None,
        model: str | None = None,
        fallback: bool = True,
        budget: Budget | None = None,
    ) -> ModelGrant:
        """Return what a task of ``role`` may call: its route, from ``model`` (a name in the route) on.

        Without ``fallback`` no model substitutes the requested one.

        Raises:
            MalformedError: ``model_unknown``: the name is no model.
            DeniedError: ``model_not_allowed`` (the model is not in the route, or the role has no route),
                ``model_price_unknown`` (a budget in money, and a model without a price).
        """
        budget = budget or Budget()
        route = self.route(role, pool)
        if model is not None and self.model(model) is None:
            raise MalformedError(f"{MODELS_FILE} has no model {model[:128]!r}", code="model_unknown")
        if not route or (model is not None and model not in route):
            wanted = f"the model {model}" if model is not None else "any model"
            raise DeniedError(f"no route of {MODELS_FILE} gives {wanted} to the {role}", code="model_not_allowed")
        start = 0 if model is None else route.index(model)
        asked = route if model is None else (model,)
        allowed = route[start:] if fallback or model is None else asked
        if budget.cost_usd is not None and (unknown := tuple(self._unpriced_models(allowed))):
            raise DeniedError(
                f"the budget is in money, and {MODELS_FILE} has no price for {', '.join(unknown)}", code="model_price_unknown"
            )
        routes = {name: route[route.index(name) :] if fallback else (name,) for name in asked}
        return ModelGrant(role=role, routes=routes, budget=budget)

    def _unpriced_models(self, names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if (model := self.model(name)) is not None and model.price is None)


MODELS_FILE = PolicyFile("models.json", ModelsPolicy)


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """The policy of models, and the policy of transfers, if any: what calls a model needs both."""

    policy: ModelsPolicy
    transfers: TransfersPolicy | None = None


def load_models(folder: Path) -> LoadedModels:
    """Read ``models.json`` and ``transfers.json`` of the operator's folder.

    Raises ConfigurationError naming the file and the place.
    """
    transfers = TRANSFERS_FILE.load_if_present(folder)
    return LoadedModels(MODELS_FILE.load(folder).policy, transfers.policy if transfers else None)


def _check_unique(kind: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"the {kind} {name} is listed {count} times")
