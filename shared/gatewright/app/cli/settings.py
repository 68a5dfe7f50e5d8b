"""The settings of the command line, and the part of the caller's environment that its processes inherit."""

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
    from gatewright.app.environments.plan import Installer
    from gatewright.bus.stream_settings import StreamSettings
    from gatewright.egress.policy import EgressPolicy
    from gatewright.git.access.credentials import RepositoryAccess
    from gatewright.secrets.scanner import SecretScanner

#: Prefix of the variables of this program.
_PREFIX = "GATEWRIGHT_"
#: The variables that the roles inherit. No others do, so tokens and keys of other tools do not reach them.
_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "SSH_AUTH_SOCK"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    | {"all_proxy", "ALL_PROXY"}
)
#: Variables that locate git's user configuration, and those that set an identity above it.
_USER_GIT = frozenset(
    {"PATH", "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
    | {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"}
)
#: Variables of installers about registries and proxies, in addition to their files in the user's home.
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
#: ``OTEL_``: destination of traces.
_INHERITED_PREFIXES = (_PREFIX, "LC_", "OTEL_")
#: How the user's git signs commits, for the gatekeeper alone, and the variable that locates the keyring of gpg.
USER_SIGNING = "GATEWRIGHT_USER_SIGNING"
_KEYRING = "GNUPGHOME"


def _variable(field: str) -> str:
    return f"{_PREFIX}{field.upper()}"


def _convert_path(kind: type[Any], value: Any) -> Any:
    return kind(value)


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_variable):
    """Settings read by ``load`` from variables ``GATEWRIGHT_<FIELD>``. An empty one is ignored, as compose files write it."""

    @classmethod
    def load(cls) -> Self:
        """Read the settings. Raises ConfigurationError."""
        variables = {name: value for name, value in os.environ.items() if value}
        try:
            return msgspec.convert(variables, cls, strict=False, dec_hook=_convert_path)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"a {_PREFIX} variable is wrong: {error}") from error


class CliSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings of all commands."""

    #: The bus of a system on another host. By default the stack of the home folder serves, or a new one.
    nats_url: str | None = None
    #: The ``.nk`` file of the identity to connect as, and the PEM of the CA of the server's certificate.
    nats_seed: Path | None = None
    nats_ca: Path | None = None
    #: Number of streams of the ledger, on the bus or in a new stack. All processes have the same setting.
    ledger_partitions: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: The home folder; by default the nearest ``.gatewright``.
    home: Path | None = None
    #: The policy folder; by default that of the package, and for a home folder also its own approval rule.
    policies: Path | None = None
    #: The signing key, if not that of the home folder.
    key: Path | None = None
    #: The gatekeeper's store of sealed bundles, if not the home folder. The gatekeeper has the same setting.
    bundle_store: str | None = None
    #: Limits on local disk space for the copy of a repository of another host.
    mirror_bytes: Annotated[int, msgspec.Meta(ge=64 << 20)] = MIRROR_BYTES
    #: Size and age limits of streams; the gatekeeper has the same settings.
    stream_bytes: str = ""
    stream_days: str = ""
    #: Address where a long-running command serves its metrics; -1 for none.
    metrics_host: str = "127.0.0.1"
    metrics_port: int = -1
    #: Secret scanner for a bundle that is rebuilt; the services have the same setting.
    secret_scanner: ScannerName = "kingfisher"  # noqa: S105 - the name of a program
    #: File in which the live page records who viewed what; by default it records nothing.
    console_record: Path | None = None
    #: Idle minutes of a stack that `run` starts at a terminal; 0 for no such stack.
    linger_minutes: Annotated[float, msgspec.Meta(ge=0, le=1440)] = 10.0
    #: For ``--env auto``: permit local builds of packages without a wheel, which run their code.
    source_builds: bool = False

    @property
    def stream_settings(self) -> StreamSettings:
        """Return the settings of the streams. Raises ConfigurationError."""
        # Imported late: few commands need it.
        from gatewright.bus.stream_settings import StreamSettings

        return StreamSettings.of(self.stream_bytes, self.stream_days)


class DoctorSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings of the roles that ``doctor`` checks."""

    sandbox: str = "bubblewrap"
    policies: Path = msgspec.field(default_factory=policy_directory)


class AgentSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings for agents and models; the worker has the same ones."""

    policies: Path = msgspec.field(default_factory=policy_directory)
    agent_installations: str = ""
    #: Cassette that the roles replay in place of models; no key is needed then.
    cassette: Path | None = None

    @property
    def installations(self) -> tuple[Path, ...]:
        """Return the folders with installed agents."""
        return tuple(Path(part) for part in self.agent_installations.split(os.pathsep) if part)


class ForgeSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings of ``forge``."""

    policies: Path = msgspec.field(default_factory=policy_directory)
    #: Seconds between two reads of the open change requests.
    forge_poll_seconds: Annotated[float, msgspec.Meta(ge=5, le=3600)] = 60.0
    #: Seconds until runs with open change requests are compared again.
    forge_recheck_seconds: Annotated[float, msgspec.Meta(ge=5, le=86_400)] = 900.0
    #: Days after its end in which a run is compared after a start.
    forge_look_back_days: Annotated[float, msgspec.Meta(ge=0, le=365)] = 7.0
    #: Address of the live page, for links; by default there are none.
    forge_console: Annotated[str, msgspec.Meta(pattern="^https?://[^\\s]{1,200}$|^$")] = ""


def load() -> CliSettings:
    """Read the settings of the command line. Raises ConfigurationError."""
    return CliSettings.load()


def inherited_environment() -> dict[str, str]:
    """Return the environment that the processes of the stack start with."""
    inherited = (name for name in os.environ if name in _INHERITED or name.startswith(_INHERITED_PREFIXES))
    return {name: os.environ[name] for name in inherited if name != USER_SIGNING}


def user_signing_variables() -> dict[str, str]:
    """Return the variables that are set about signatures of the user's git."""
    return {name: os.environ[name] for name in (USER_SIGNING, _KEYRING) if os.environ.get(name)}


def model_keys() -> dict[str, str]:
    """Return the variables that are set among the keys in ``models.json``. Raises ConfigurationError."""
    # Imported late: only the start of a stack needs it.
    from gatewright.models.policy import load_models
    from gatewright.policy_files import EnvironmentKey

    providers = load_models(AgentSettings.load().policies).policy.providers
    names = {name for provider in providers if isinstance(provider.key, EnvironmentKey) for name in provider.key.names}
    return {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}


def repository_keys() -> dict[str, dict[str, str]]:
    """Return the variables that are set among the keys in ``repositories.json``, by role. Raises ConfigurationError."""
    # Imported late: only the start of a stack needs it.
    from gatewright.git.access.policy import REPOSITORIES_FILE, AccessRole

    policy = REPOSITORIES_FILE.load(AgentSettings.load().policies).policy
    names = {role: sorted(policy.variables(role)) for role in get_args(AccessRole)}
    return {role: {name: os.environ[name] for name in found if os.environ.get(name)} for role, found in names.items()}


def egress_policy(folder: Path) -> tuple[EgressPolicy | None, dict[str, str]]:
    """Return the operator's ``egress.json``, None without one, and the credentials that it names. Raises ConfigurationError."""
    # Imported late: only a run that makes an environment needs it.
    from gatewright.egress.policy import EGRESS_FILE

    loaded = EGRESS_FILE.load_if_present(folder)
    names = {source.credential for source in loaded.policy.sources} if loaded is not None else set[str]()
    return loaded.policy if loaded is not None else None, {name: os.environ[name] for name in names if os.environ.get(name)}


def host_installer(policies: Path) -> Installer:
    """Return the installer with this host's settings, under the ``egress.json`` of ``policies``. Raises ConfigurationError."""
    # Imported late: only what prepares an environment needs it.
    from gatewright.app.environments.plan import Installer

    egress, secrets = egress_policy(policies)
    builds, sandbox = load().source_builds, DoctorSettings.load().sandbox
    return Installer(installer_environment(), source_builds=builds, egress=egress, secrets=secrets, sandbox=sandbox)


def operator_access() -> RepositoryAccess:
    """Return the access of a person's own command to repositories of other hosts. Raises ConfigurationError."""
    from gatewright.git.access.credentials import RepositoryAccess

    return RepositoryAccess.load(AgentSettings.load().policies, "operator")


def scanner_of(home: Path) -> SecretScanner:
    """Return the scanner that the user chose, with the rules of the home folder. Raises ConfigurationError."""
    from gatewright.secrets.selection import make_scanner

    return make_scanner(load().secret_scanner, home / "secret-rules")


def installer_environment() -> dict[str, str]:
    """Return the environment of installers: with the user's configuration of them, and without Python's variables.

    Empty variables are left out, as compose files write them; pip, npm and go ignore them too.
    """
    given = {name: value for name, value in os.environ.items() if value}
    return {name: value for name, value in given.items() if name in _INSTALLERS or name.startswith(_INSTALLER_PREFIXES)}


def engine_environment() -> dict[str, str]:
    """Return the variables that the command of a container engine needs to find its engine."""
    return {name: value for name, value in os.environ.items() if name in _INSTALLERS or name.startswith(_ENGINE_PREFIXES)}


def is_automation() -> bool:
    """Return whether a CI system runs this process: nearly all of them set ``CI``."""
    return os.environ.get("CI", "") not in ("", "0", "false")


def hook_index() -> Path | None:
    """Return the index that git names to its hooks (``GIT_INDEX_FILE``); another one for ``commit -a`` and for paths."""
    given = os.environ.get("GIT_INDEX_FILE")
    return Path(given).absolute() if given else None


def user_git_environment() -> dict[str, str]:
    """Return the variables with which the user's own git finds the user and the user's configuration."""
    return {name: value for name, value in os.environ.items() if name in _USER_GIT}


def git_ceilings() -> frozenset[Path]:
    """Return the folders above which git does not search for a repository (``GIT_CEILING_DIRECTORIES``)."""
    named = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    return frozenset(Path(name) for name in named if name)
