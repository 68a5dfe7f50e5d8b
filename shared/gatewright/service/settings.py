"""The settings of every service: environment variables with the prefix ``GATEWRIGHT_``, and nothing else.

Only this module reads the environment. No ``.env`` file is read: the current directory may be an agent's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from gatewright.bus.identities import BusAddress
from gatewright.bus.stream_settings import StreamSettings, read_days, read_sizes
from gatewright.bus.topology import DEFAULT_POOL, MOST_PARTITIONS, Role
from gatewright.errors import ConfigurationError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.host.user_checkout import UserSigning
from gatewright.git.mirror import Mirrors
from gatewright.git.mirror_room import MIRROR_BYTES, MirrorRoom, nothing_needed
from gatewright.resources import policy_directory
from gatewright.sandbox.offers import ListedEnvironments
from gatewright.secrets.scanner import SecretScanner
from gatewright.secrets.selection import DEFAULT_SCANNER, ScannerName, make_scanner
from gatewright.telemetry.logs import LogLevel, LogStyle
from gatewright.telemetry.traces import Traces

PREFIX = "GATEWRIGHT_"
#: The roles that may ask models for documents.
CONSULTING = ("pm", "techlead", "reviewer")
_POOL = re.compile(r"^[A-Za-z0-9_-]{1,32}$")  # noqa: TID251 - the operator's own text


class ServiceSettings(BaseSettings):
    """Settings that all roles share; a role adds its own in a subclass. Frozen once read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)

    #: ``nats://`` or ``tls://``, several separated by commas.
    nats_url: str = Field(default="nats://127.0.0.1:4222", min_length=1, repr=False)
    #: The ``.nk`` file of the identity that the process connects as.
    nats_seed: Path | None = None
    #: PEM of the authority that signed the server's certificate, where the host does not know it.
    nats_ca: Path | None = None
    #: Number of streams of the ledger; the server's configuration must have the same.
    ledger_partitions: int = Field(default=1, ge=1, le=MOST_PARTITIONS)
    #: The gatekeeper sets up queues for these pools; separated by ``,`` in the variable.
    pools: Annotated[tuple[str, ...], NoDecode] = (DEFAULT_POOL,)
    #: Replicas of each stream in a cluster, set by the gatekeeper; None: unchanged.
    stream_replicas: int | None = Field(default=None, ge=1, le=5)
    #: Bytes that streams hold, as ``RESULTS=2GiB INTAKE=64MiB``, and days after which DEAD and UPLOADS forget, as ``DEAD=90``.
    stream_bytes: str = ""
    stream_days: str = ""
    #: The state of this host: mirrors, workspaces, checkouts.
    home: Path = Path(".gatewright")
    #: Total disk bytes of one role's mirrors on this host.
    mirror_bytes: int = Field(default=MIRROR_BYTES, ge=64 << 20)
    #: The pool of the role whose queue the process serves.
    pool: str = Field(default=DEFAULT_POOL, pattern=_POOL.pattern)
    #: Maximum concurrent tasks.
    concurrency: int = Field(default=1, ge=1, le=64)
    #: Seconds for running tasks after a signal to stop; container engines kill after ten.
    drain_seconds: float = Field(default=8.0, ge=0, le=3600)
    #: Seconds beyond a task's own time limit before it is ended from outside.
    grace_seconds: float = Field(default=15.0, ge=0, le=3600)
    #: The sandbox of commands. ``none`` is for hosts that are themselves a sandbox; it is recorded in the bundle.
    sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    #: The secret scanner: the library's catalogue with our own patterns, or these alone. It is recorded in the bundle.
    secret_scanner: ScannerName = DEFAULT_SCANNER
    #: Prefixes (virtual environments) that contracts may name; separated by ``:`` in the variable.
    environments: Annotated[tuple[Path, ...], NoDecode] = ()
    #: The file in which the owner of an embedded stack offers further ones while it runs; None for every other system.
    environment_offers: Path | None = None
    #: The operator's policies, where no agent can write: the gatekeeper's, and ``models.json``.
    policies: Path = Field(default_factory=policy_directory)
    #: The folder of the operator's personas and rules; without it the built-in ones.
    prompts: Path | None = None
    #: A folder of recorded calls, or the bundle of a run: its calls are replayed, and no role calls a model.
    cassette: Path | None = None
    #: Roles that ask models, of pm, techlead and reviewer; separated by ``,`` in the variable. The pm asks only for what a
    #: request leaves open; the others do whenever they work, so that they have to be named.
    consult: Annotated[tuple[str, ...], NoDecode] = ("pm",)
    #: The destination of traces: a collector, which the standard ``OTEL_`` variables name, or none.
    traces: Traces = "none"
    metrics_host: str = Field(default="127.0.0.1", min_length=1)
    #: 0: any free port, which is logged. -1: none.
    metrics_port: int = Field(default=0, ge=-1, le=65535)
    log_level: LogLevel = "info"
    #: ``json`` for machines, ``text`` for a person at a terminal.
    log_style: LogStyle = "json"

    @field_validator("stream_bytes", mode="after")
    @classmethod
    def _of_bytes(cls, text: str) -> str:
        read_sizes(text)
        return text

    @field_validator("stream_days", mode="after")
    @classmethod
    def _of_days(cls, text: str) -> str:
        read_days(text)
        return text

    @field_validator("home", mode="after")
    @classmethod
    def _from_anywhere(cls, home: Path) -> Path:
        return home.absolute()

    @field_validator("cassette", mode="after")
    @classmethod
    def _from_the_root(cls, cassette: Path | None) -> Path | None:
        if cassette is not None and not cassette.is_absolute():
            raise ValueError(f"{cassette} is not an absolute path")
        return cassette

    @field_validator("environments", mode="before")
    @classmethod
    def _as_list(cls, value: object) -> object:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("pools", "consult", mode="before")
    @classmethod
    def _as_names(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("pools", mode="after")
    @classmethod
    def _all_names(cls, pools: tuple[str, ...]) -> tuple[str, ...]:
        if not pools or not all(_POOL.fullmatch(pool) for pool in pools):
            raise ValueError("pools are named by letters, digits, - and _")
        return pools

    @field_validator("consult", mode="after")
    @classmethod
    def _all_consulting(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [role for role in roles if role not in CONSULTING]:
            raise ValueError(f"{unknown[0][:40]!r} is no role that asks models; there are {', '.join(CONSULTING)}")
        return roles

    @field_validator("environments", mode="after")
    @classmethod
    def _all_absolute(cls, prefixes: tuple[Path, ...]) -> tuple[Path, ...]:
        for prefix in prefixes:
            if not prefix.is_absolute():
                raise ValueError(f"{prefix} is not an absolute path")
        return prefixes

    @classmethod
    def load(cls) -> Self:
        """Read the environment. Raises ConfigurationError that names each variable that is wrong, but not its value."""
        try:
            return cls()
        except ValidationError as error:
            faults = [
                f"{_variable(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_input=False, include_url=False)
            ]
            raise ConfigurationError("; ".join(faults)) from None
        except SettingsError as error:
            raise ConfigurationError(str(error)) from None

    @property
    def bus_address(self) -> BusAddress:
        return BusAddress(self.nats_url, self.nats_seed, self.nats_ca, self.ledger_partitions)

    @property
    def stream_settings(self) -> StreamSettings:
        return StreamSettings(read_sizes(self.stream_bytes), read_days(self.stream_days))

    @property
    def allowed_environments(self) -> ListedEnvironments:
        """The prefixes that contracts may name now."""
        return ListedEnvironments(self.environments, self.environment_offers)

    def directory(self, role: str) -> Path:
        """Return the state folder of a role on this host: ``home/<role>``. It may not exist yet."""
        return self.home / role

    def mirrors(self, role: str) -> Path:
        """Return the folder of a role's mirrors. It may not exist yet."""
        return self.directory(role) / "mirrors"

    def mirror_room(self, role: Role, needed: Callable[[], Collection[str]] = nothing_needed) -> MirrorRoom:
        """Return the disk budget of a role's mirrors on this host."""
        return MirrorRoom(self.mirrors(role), self.mirror_bytes, needed)

    def open_mirrors(
        self, role: Role, needed: Callable[[], Collection[str]] = nothing_needed, user: UserSigning | None = None
    ) -> Mirrors:
        """The mirrors of a role, with what the policy gives it for repositories of other hosts. Raises ConfigurationError."""
        access = replace(RepositoryAccess.load(self.policies, role), user=user)
        return Mirrors(self.mirrors(role), access=access, most=self.mirror_bytes, needed=needed)

    def scanner(self) -> SecretScanner:
        """The scanner for secrets. Raises ConfigurationError when its library is not installed."""
        return make_scanner(self.secret_scanner, self.home / "secret-rules")


def _variable(location: tuple[int | str, ...]) -> str:
    return PREFIX + str(location[0]).upper() if location else "settings"
