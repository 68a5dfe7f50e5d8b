"""The settings of the command line, and which part of the caller's environment its processes inherit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

import msgspec

from gatewright.errors import ConfigurationError
from gatewright.git.mirror_room import MIRROR_BYTES
from gatewright.resources import policy_directory
from gatewright.secrets.selection import ScannerName

if TYPE_CHECKING:
    from gatewright.bus.stream_settings import StreamSettings
    from gatewright.git.access.credentials import RepositoryAccess

#: What the variables of this program begin with.
_PREFIX = "GATEWRIGHT_"
#: Nothing else of the caller's environment reaches the roles: tokens and keys of other tools are none of their business.
_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "SSH_AUTH_SOCK"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    | {"all_proxy", "ALL_PROXY"}
)
#: Where git finds the configuration of its user, and the identity that stands above it.
_USER_GIT = frozenset(
    {"PATH", "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
    | {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"}
)
#: What installers are told of registries and of the way there, beside what they read in the user's home.
_INSTALLERS = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME"}
    | {
        "LD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NETRC",
        "NODE_EXTRA_CA_CERTS",
    }
    | {"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOENV", "NVM_DIR"}
    | {f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")}
    | {f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL", "NO")}
)
_INSTALLER_PREFIXES = ("PIP_", "UV_", "NPM_", "npm_config_", "PNPM_", "YARN_", "CARGO_", "RUSTUP_")
_ENGINE_PREFIXES = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_RUNTIME_DIR")
#: ``OTEL_``: where traces go.
_INHERITED_PREFIXES = (_PREFIX, "LC_", "OTEL_")


def _variable(field: str) -> str:
    return f"{_PREFIX}{field.upper()}"


def _path(kind: type[Any], value: Any) -> Any:
    return kind(value)


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_variable):
    """Read from variables named ``GATEWRIGHT_<FIELD>``, by ``load``. An empty one says nothing, as compose files write it."""

    @classmethod
    def load(cls) -> Self:
        """Raises ConfigurationError."""
        said = {name: value for name, value in os.environ.items() if value}
        try:
            return msgspec.convert(said, cls, strict=False, dec_hook=_path)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"a {_PREFIX} variable is wrong: {error}") from error


class CliSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """What all commands may be told."""

    #: The bus of a system that runs elsewhere; without it the stack of the home folder serves, or one is started.
    nats_url: str | None = None
    #: The ``.nk`` file of the identity to connect as, and the PEM of the authority behind the server's certificate.
    nats_seed: Path | None = None
    nats_ca: Path | None = None
    #: In how many streams the ledger lies, there or in the stack that is started; all processes have the same setting.
    ledger_partitions: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: The home folder; without it the nearest ``.gatewright``.
    home: Path | None = None
    #: The folder of the policies; without it those of the package, and of a home folder its own approval rule.
    policies: Path | None = None
    #: The signing key, where it is not the one of the home folder.
    key: Path | None = None
    #: Where the gatekeeper keeps sealed bundles, if not in the home folder; it has the same setting.
    bundle_store: str | None = None
    #: What the copy of a repository of another host may take of this host's disk.
    mirror_bytes: Annotated[int, msgspec.Meta(ge=64 << 20)] = MIRROR_BYTES
    #: What streams hold, and for how long; the gatekeeper has the same settings.
    stream_bytes: str = ""
    stream_days: str = ""
    #: Where a command that stays shows its metrics; -1: nowhere.
    metrics_host: str = "127.0.0.1"
    metrics_port: int = -1
    #: What looks for secrets where a bundle is made again; the services have the same setting.
    secret_scanner: ScannerName = "kingfisher"  # noqa: S105 - the name of a program
    #: Where the live page writes down who looked at what; without it it does not.
    console_record: Path | None = None
    #: How long a stack that `run` starts at a terminal stays idle; 0: none stays.
    linger_minutes: Annotated[float, msgspec.Meta(ge=0, le=1440)] = 10.0
    #: For ``--env auto``: packages that have no wheel may be built on this host, which runs their code.
    source_builds: bool = False

    @property
    def stream_settings(self) -> StreamSettings:
        """Raises ConfigurationError."""
        # Imported late: few commands need it.
        from gatewright.bus.stream_settings import StreamSettings

        return StreamSettings.of(self.stream_bytes, self.stream_days)


class DoctorSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """What ``doctor`` must know of the settings that the roles will read."""

    sandbox: str = "bubblewrap"
    policies: Path = msgspec.field(default_factory=policy_directory)


class AgentSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """What the command line must know of agents and models; the worker has the same settings."""

    policies: Path = msgspec.field(default_factory=policy_directory)
    agent_installations: str = ""
    #: What the roles play in the place of models; no key is needed then.
    cassette: Path | None = None

    @property
    def installations(self) -> tuple[Path, ...]:
        """The folders in which agents are installed."""
        return tuple(Path(part) for part in self.agent_installations.split(os.pathsep) if part)


def load() -> CliSettings:
    """Raises ConfigurationError."""
    return CliSettings.load()


def inherited_environment() -> dict[str, str]:
    """The environment that the processes of the stack start from."""
    return {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)}


def model_keys() -> dict[str, str]:
    """The variables that ``models.json`` names as keys, as far as they are set. Raises ConfigurationError."""
    # Imported late: only what starts a stack needs it.
    from gatewright.models.policy import load_models
    from gatewright.policy_files import EnvironmentKey

    providers = load_models(AgentSettings.load().policies).policy.providers
    names = {name for provider in providers if isinstance(provider.key, EnvironmentKey) for name in provider.key.names}
    return {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}


def repository_keys() -> dict[str, dict[str, str]]:
    """By role, the variables that ``repositories.json`` names as keys for it, as far as they are set. ConfigurationError."""
    # Imported late: only what starts a stack needs it.
    from gatewright.git.access.policy import REPOSITORIES_FILE, AccessRole

    policy = REPOSITORIES_FILE.load(AgentSettings.load().policies).policy
    names = {role: sorted(policy.variables(role)) for role in get_args(AccessRole)}
    return {role: {name: os.environ[name] for name in found if os.environ.get(name)} for role, found in names.items()}


def operator_access() -> RepositoryAccess:
    """What a person's own command may use for repositories of other hosts. Raises ConfigurationError."""
    from gatewright.git.access.credentials import RepositoryAccess

    return RepositoryAccess.load(AgentSettings.load().policies, "operator")


def installer_environment() -> dict[str, str]:
    """The environment that installers start from: the user's own configuration of them, and none of Python."""
    return {name: value for name, value in os.environ.items() if name in _INSTALLERS or name.startswith(_INSTALLER_PREFIXES)}


def engine_environment() -> dict[str, str]:
    """What the command of a container engine reads to find its engine."""
    return {name: value for name, value in os.environ.items() if name in _INSTALLERS or name.startswith(_ENGINE_PREFIXES)}


def is_automation() -> bool:
    """Whether a CI system runs this: nearly all of them set ``CI``."""
    return os.environ.get("CI", "") not in ("", "0", "false")


def hook_index() -> Path | None:
    """The index that git names to its hooks (``GIT_INDEX_FILE``); for ``commit -a`` and for paths it is not the usual one."""
    given = os.environ.get("GIT_INDEX_FILE")
    return Path(given).absolute() if given else None


def user_git_environment() -> dict[str, str]:
    """What the user's own git would read of the environment to know the user and the user's configuration."""
    return {name: value for name, value in os.environ.items() if name in _USER_GIT}


def git_ceilings() -> frozenset[Path]:
    """The folders into which git does not go up when it looks for a repository (``GIT_CEILING_DIRECTORIES``)."""
    named = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    return frozenset(Path(name) for name in named if name)
