"""The user's own registries, read on the host before the pull phase: sources for the gateway, settings for the box.

A credential goes to the gateway alone. A local folder of packages is shown to the box. Settings of a tool that decide what is
installed are kept, and authorities whose certificates it trusts; proxies and other paths of the host are not.
"""

from __future__ import annotations

import base64
import configparser
import json
import netrc
import os
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import url2pathname
from xml.sax.saxutils import escape

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.node_recipe import PUBLIC_HOSTS
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.pull import HOME, Registries
from gatewright.app.environments.tool import run_tool
from gatewright.egress.addresses import canonical_address
from gatewright.egress.allowed import IndexedAddresses
from gatewright.egress.policy import PUBLIC, EgressSource
from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import UnreadableDocumentError, read_json, read_toml, read_xml, table_of
from gatewright.patterns import BytesPattern
from gatewright.sandbox import sandbox_account
from gatewright.sandbox.environments import Ecosystem
from gatewright.sandbox.prefix import home_folders, inspect_installation

_PYPI: Final = "https://pypi.org/simple"
#: Written as labels: the name of a foreign registry, which only the gateway contacts.
_CRATES_IO: Final = ".".join(("index", "crates", "io"))  # noqa: FLY002
#: Settings of pip and npm besides registries that stay valid in the box.
_OF_PIP: Final = ("no-index", "pre", "prefer-binary", "timeout", "default-timeout", "retries", "trusted-host")
_OF_NPM: Final = (
    *("legacy-peer-deps", "strict-peer-deps", "omit-lockfile-registry-resolved", "engine-strict", "install-strategy"),
    *("prefer-dedupe", "before", "tag", "replace-registry-host", "maxsockets", "fetch-retries", "fetch-timeout"),
    *("node-linker", "shamefully-hoist", "auto-install-peers", "strict-peer-dependencies"),
)
_MOST_BYTES: Final = 1 << 20
#: An archive in a lock of npm or yarn, and a package (``name@version``, once ``/name/version``) in one of pnpm.
_RESOLVED: Final = BytesPattern(rb'resolved"?:?[ \t]+"(https?://[^"#\s]+)')
_PNPM_PACKAGE: Final = BytesPattern(rb"""(?m)^  ['"]?/?((?:@[^/@\s'"]+/)?[^/@\s'"(]+[@/][0-9][^:'"(\s]*)""")


class UserSources:
    """Collects what a user's configuration names. ``add`` returns an address as the box may see it."""

    def __init__(self, ecosystem: Ecosystem, installer: Installer) -> None:
        self._ecosystem, self._home = ecosystem, Path(installer.variables.get("HOME", "/nonexistent"))
        self._sources: dict[str, EgressSource] = {}
        self._secrets: dict[str, str] = {}
        self._shown: list[Path] = []
        self.trusted = ""

    def add(self, address: str, credential: str = "") -> str:
        """Add a registry: ``http``, ``https`` or ``file``. Raises NotPreparedError for any other, and as ``add_folder``."""
        try:
            parts = urlsplit(address)
            if parts.scheme == "file":
                self.add_folder(url2pathname(parts.path))
                return address
            if parts.scheme in {"http", "https"}:
                return self._add_remote(parts, credential)
        except ValueError as error:
            raise NotPreparedError(f"your configuration names {_shown(address)}, which is no registry: {error}") from error
        raise NotPreparedError(f"your configuration names {_shown(address)}, which is no address of a registry")

    def add_folder(self, place: str) -> str:
        """Show a local folder of packages; of an index the folder above, where its files are. A missing one is skipped.

        Raises NotPreparedError for a folder that must not be shown.
        """
        path = self._home / place[2:] if place.startswith("~/") else Path(place)
        folder = path if path.is_dir() else path.parent
        wider = (folder.parent,) if folder.name == "simple" else ()
        for each in (*wider, folder) if path.is_absolute() and path.exists() else ():
            try:
                inspect_installation(each, homes=home_folders(), account=sandbox_account())
            except ConfigurationError as error:
                if each == folder:
                    raise NotPreparedError(f"the local folder of packages cannot be shown: {error.message}") from error
            else:
                self._shown.append(each)
                break
        return str(path)

    def registries(self, variables: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> Registries:
        """Return all of it, with the settings of the box."""
        sources, shown = tuple(self._sources.values()), tuple(self._shown)
        return Registries(sources, self._secrets, variables, files or {}, shown, trusted=self.trusted)

    def _add_remote(self, parts: SplitResult, credential: str) -> str:
        host = (parts.hostname or "").lower()
        port = parts.port or (80 if parts.scheme == "http" else 443)
        where = host if port == 443 else f"{host}:{port}"
        credential = credential or _userinfo(parts.username, parts.password) or self._of_netrc(host)
        bare = urlunsplit(parts._replace(netloc=(parts.netloc.rpartition("@")[2])))
        key = f"{where}{parts.path.rstrip('/')}"
        if key in self._sources:
            return bare
        name = f"user-{self._ecosystem}-{len(self._sources)}"
        variable = f"REGISTRY_{len(self._sources)}" if credential else ""
        if credential:
            self._secrets[variable] = credential
        beside = next((each.hosts for each in PUBLIC if where in each.hosts), ())
        self._sources[key] = EgressSource(
            name=name,
            hosts=tuple(dict.fromkeys((where, *beside))),
            private=True,
            http=parts.scheme == "http",
            credential=variable,
            ecosystem=self._ecosystem,
            index=parts.path or "/",
        )
        return bare

    def _of_netrc(self, host: str) -> str:
        try:
            found = netrc.netrc(self._home / ".netrc").authenticators(host)
        except (OSError, netrc.NetrcParseError):
            return ""
        return _userinfo(found[0], found[2]) if found is not None else ""


def python_registries(installer: Installer) -> Registries:
    """Return the user's registries of pip, from its files and variables. Raises NotPreparedError."""
    settings = dict(_pip_settings(installer.variables))
    found = UserSources("python", installer)
    found.trusted = settings.get("cert", "")
    links = settings.get("find-links", "").split()
    variables = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1"}
    variables["PIP_FIND_LINKS"] = " ".join(found.add(each) if "://" in each else found.add_folder(each) for each in links)
    if settings.get("no-index", "").lower() not in {"1", "true", "yes", "on"}:
        variables["PIP_INDEX_URL"] = found.add(settings.get("index-url", _PYPI))
        more = settings.get("extra-index-url", "").split()
        variables["PIP_EXTRA_INDEX_URL"] = " ".join(found.add(each) for each in more)
    pins = {f"constraints-{n}.txt": _pins(path) for n, path in enumerate(settings.get("constraint", "").split())}
    variables["PIP_CONSTRAINT"] = " ".join(f"{HOME}/{name}" for name in pins)
    kept = {f"PIP_{name.upper().replace('-', '_')}": settings[name] for name in _OF_PIP if name in settings}
    given = {name: value for name, value in {**variables, **kept}.items() if value}
    return found.registries(given, pins)


def _pins(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotPreparedError(f"your configuration of pip names the constraints {path}: {error.strerror}") from error


def _pip_settings(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings of ``pip install`` as pip reads them, from the weakest to the strongest."""
    parser = configparser.RawConfigParser()
    for path in _pip_files(variables):
        try:
            parser.read(path, "utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise NotPreparedError(f"your pip's configuration {path} cannot be read: {error}") from error
    for section in ("global", "install"):
        if parser.has_section(section):
            yield from ((name.replace("_", "-"), value) for name, value in parser.items(section) if value)
    for name, value in variables.items():
        if name.startswith("PIP_") and value:
            yield name.removeprefix("PIP_").lower().replace("_", "-"), value


def _pip_files(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files of pip's configuration: the host's, the user's, and the one that a variable names."""
    home, named = Path(variables.get("HOME", "/nonexistent")), variables.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return ()
    host = [Path(each, "pip") for each in reversed((variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"))]
    own = [home / ".pip", Path(variables.get("XDG_CONFIG_HOME") or home / ".config", "pip")]
    own = [] if named and Path(named).exists() else own
    return (*(folder / "pip.conf" for folder in (*host, Path("/etc"), *own)), *((Path(named),) if named else ()))


@dataclass(frozen=True, slots=True)
class NodeRegistries:
    """The user's registries of Node; ``addresses`` are theirs by setting (``registry``, ``@scope:registry``). ``version`` is
    that of npm."""

    registries: Registries
    addresses: Mapping[str, str]
    version: str = ""

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts of the registries, with their ports."""
        return frozenset(host for address in self.addresses.values() if (host := host_of(address)))


class UserIndexes:
    """``IndexedAddresses`` for registries of which several may have one host, as repositories of one server."""

    def __init__(
        self, sources: tuple[EgressSource, ...], names: Collection[str] | None = None, given: Collection[str] = ()
    ) -> None:
        groups: list[list[EgressSource]] = [[]]
        for source in sources:
            free = (group for group in groups if source.hosts[0] not in {each.hosts[0] for each in group})
            group = next(free, None)
            if group is None:
                groups.append(group := [])
            group.append(source)
        self._each = [IndexedAddresses(tuple(group), names, given) for group in groups]

    def refusal(self, url: str) -> str:
        """See ``AllowedAddresses``."""
        refusals = [each.refusal(url) for each in self._each]
        return "" if "" in refusals else refusals[0]

    def reads(self, url: str) -> bool:
        """See ``AllowedAddresses``."""
        return any(each.reads(url) for each in self._each)

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        """See ``AllowedAddresses``."""
        for each in self._each:
            if each.reads(url):
                each.learn(url, media_type, content)


class NodeAddresses(UserIndexes):
    """The archives that a lock or a package's page names, at the registries that stand for the public one."""

    def __init__(
        self, sources: tuple[EgressSource, ...], user: NodeRegistries, lock: bytes, given: Collection[str] = ()
    ) -> None:
        super().__init__(sources, given=given)
        self._registries = tuple(each.rstrip("/").encode() for each in user.addresses.values())
        named = {each.decode("utf-8", "replace") for text in self._renamed(lock) for each in _RESOLVED.groups(text)}
        for package in _PNPM_PACKAGE.groups(lock):
            name, _, version = package.decode("utf-8", "replace").rpartition("@" if b"@" in package[1:] else "/")
            archive = f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
            named |= {f"{registry.decode()}/{archive}" for registry in self._registries}
        self._locked = {_canonical(each) for each in named}

    def refusal(self, url: str) -> str:
        """See ``AllowedAddresses``."""
        return "" if url in self._locked else super().refusal(url)

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        """See ``AllowedAddresses``."""
        for each in self._renamed(content):
            super().learn(url, media_type, each)

    def _renamed(self, content: bytes) -> list[bytes]:
        """Return the content, and as installers read it: with their own registries in place of the public one."""
        found = [content]
        for registry in self._registries:
            parts = urlsplit(registry)
            for base in dict.fromkeys((registry, parts.scheme + b"://" + parts.netloc)):
                moved = content
                for host in PUBLIC_HOSTS:
                    moved = moved.replace(f"https://{host}/".encode(), base + b"/")
                found.append(moved)
        return list(dict.fromkeys(found))


async def node_registries(program: str, scratch: Path, installer: Installer) -> NodeRegistries:
    """Return the registries of the user's npm, pnpm or yarn."""
    settings = await _npm_settings(program, scratch, installer)
    found = UserSources("node", installer)
    found.trusted = str(settings.get("cafile") or "")
    credentials = dict(_npm_credentials(settings, installer))
    addresses = {"registry": f"https://{PUBLIC_HOSTS[0]}/"}
    addresses |= {
        name: value
        for name, value in settings.items()
        if isinstance(value, str) and value and (name == "registry" or name.endswith(":registry"))
    }
    bare = {name: found.add(address, _credential_for(address, credentials)) for name, address in addresses.items()}
    kept = {name: settings[name] for name in _OF_NPM if isinstance(settings.get(name), (str, int))}
    lines = (f"{name}={value if isinstance(value, str) else json.dumps(value)}\n" for name, value in {**kept, **bare}.items())
    _, _, own = str(settings.get("user-agent", "")).partition("pnpm/")
    version = str(settings.get("npm-version", "")) if Path(program).name == "npm" else own.partition(" ")[0]
    return NodeRegistries(found.registries({}, {".npmrc": "".join(lines).encode()}), bare, version)


async def _npm_settings(program: str, scratch: Path, installer: Installer) -> dict[str, Any]:
    """Return what the program is configured with, by its own account. In yarn 1, npm's settings precede its own registry."""
    yarn = Path(program).name == "yarn"
    words = ("config", "list", "--json", *(() if yarn else ("--loglevel=silent",)))
    output = await run_tool((program, *words), folder=scratch, environment=installer.variables)
    try:
        if yarn:
            lines = (read_json(line, dict[str, Any]) for line in output.splitlines())
            own, npm = (line["data"] for line in lines if line["type"] == "inspect")
            return {"registry": own["registry"], **npm}
        return read_json(output[output.index(b"{") : output.rindex(b"}") + 1], dict[str, Any])
    except (KeyError, ValueError):
        return {}


def _npm_credentials(settings: Mapping[str, Any], installer: Installer) -> Iterator[tuple[str, str]]:
    """Yield (address without a scheme, value of an Authorization header or ``user:password``) from the user's npmrc files."""
    home = installer.variables.get("HOME", "/nonexistent")
    named = (settings.get("globalconfig"), settings.get("userconfig") or posixpath.join(home, ".npmrc"))
    lines: dict[str, str] = {}
    for path in (each for each in named if isinstance(each, str)):
        for line in _text_of(Path(path)).splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip().startswith("//"):
                lines[name.strip()] = _expanded(value.strip().strip('"'), installer.variables)
    for name, value in lines.items():
        place, _, kind = name.rpartition(":")
        if kind == "_authToken":
            yield place, f"Bearer {value}"
        elif kind == "_auth":
            yield place, f"Basic {value}"
        elif kind == "_password" and f"{place}:username" in lines:
            yield place, f"{lines[f'{place}:username']}:{base64.b64decode(value).decode('utf-8', 'replace')}"


def _credential_for(address: str, credentials: Mapping[str, str]) -> str:
    """Return the credential of the longest matching address, as npm chooses it."""
    bare = f"{address.partition(':')[2].rstrip('/')}/"
    matching = [place for place in credentials if bare.startswith(f"{place.rstrip('/')}/")]
    return credentials[max(matching, key=len)] if matching else ""


def rust_registries(installer: Installer) -> tuple[Registries, str]:
    """Return crates.io, or what the user's cargo replaces it with, and the ``config.toml`` that does so.

    Raises NotPreparedError for an unreadable configuration.
    """
    home = Path(installer.variables.get("CARGO_HOME") or Path(installer.variables.get("HOME", "/nonexistent"), ".cargo"))
    settings, tokens = _toml_of(home, "config"), _toml_of(home, "credentials")
    found = UserSources("rust", installer)
    found.trusted = str(table_of(settings, "http").get("cainfo") or "")
    keys = {
        str(table.get("index", "")).removeprefix("sparse+"): str(table_of(tokens, "registries", name).get("token", ""))
        for name, table in _tables(table_of(settings, "registries"))
    }
    lines: list[str] = []
    for name, table in _tables(table_of(settings, "source")):
        lines.append(f"[source.{json.dumps(name)}]")
        for key, text in ((key, str(value)) for key, value in table.items()):
            bare = text.removeprefix("sparse+")
            if key == "registry":
                shown = text.replace(bare, found.add(bare, keys.get(bare, "")))
            else:
                shown = found.add_folder(str(home.parent / text)) if key in {"directory", "local-registry"} else text
            lines.append(f"{json.dumps(key)} = {json.dumps(shown)}")
    if "replace-with" not in table_of(settings, "source", "crates-io"):
        found.add(f"https://{_CRATES_IO}/")
    return found.registries({}), "".join(f"{line}\n" for line in lines)


def go_registries(settings: Mapping[str, Any], installer: Installer) -> Registries:
    """Return the user's proxies and data base of digests from ``go env -json``, without ``direct``: it contacts any host."""
    found = UserSources("go", installer)
    given = str(settings.get("GOPROXY", "")).replace("|", ",").split(",")
    proxies = [found.add(each) for each in given if each not in {"", "direct", "off"}]
    sums = str(settings.get("GOSUMDB", ""))
    name, _, address = sums.partition(" ")
    if proxies and name and name != "off":
        found.add(address.strip() or f"https://{name.partition('+')[0]}")
    kept = {each: str(settings[each]) for each in ("GONOSUMDB", "GOPRIVATE", "GOINSECURE") if settings.get(each)}
    return found.registries({"GOPROXY": ",".join(proxies) or "off", "GOSUMDB": sums, **kept})


def java_registries(installer: Installer) -> tuple[Registries, bytes]:
    """Return Maven Central or the user's mirror of it, and settings that name nothing else. Raises NotPreparedError."""
    path = Path(installer.variables.get("HOME", "/nonexistent"), ".m2/settings.xml")
    try:
        settings = read_xml((_text_of(path) or "<settings/>").encode())
    except UnreadableDocumentError as error:
        raise NotPreparedError(f"{path} of your Maven cannot be read: {error}") from error
    variables = {f"env.{name}": value for name, value in installer.variables.items()}
    mirrors, servers = (
        [{each.tag.rpartition("}")[2]: _expanded((each.text or "").strip(), variables) for each in table} for table in tables]
        for tables in (settings.iterfind("{*}mirrors/{*}mirror"), settings.iterfind("{*}servers/{*}server"))
    )
    own = {"id": "central", "url": "https://repo.maven.apache.org/maven2"}
    named = [{*each.get("mirrorOf", "").replace(" ", "").split(",")} for each in mirrors]
    covers = ("!central" not in each and bool(each & {"*", "external:*", "central"}) for each in named)
    mirror = next((each for each, fits in zip(mirrors, covers, strict=True) if fits), own)
    server = next((each for each in servers if each.get("id") == mirror.get("id")), {})
    if server.get("password", "").startswith("{"):
        raise NotPreparedError(f"{path}: the password of {server['id']} is encrypted: give it as ${{env.NAME}}")
    found = UserSources("java", installer)
    address = found.add(mirror.get("url", ""), _userinfo(server.get("username"), server.get("password")))
    place = f"<id>central</id><mirrorOf>*</mirrorOf><url>{escape(address)}</url>"
    return found.registries({}), f"<settings><mirrors><mirror>{place}</mirror></mirrors></settings>".encode()


def _canonical(text: str) -> str:
    """Return an address in its canonical form; empty for other text."""
    try:
        return str(canonical_address(text))
    except ValueError:
        return ""


def host_of(url: str) -> str:
    """Return the host with its port; empty for an invalid address."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _shown(address: str) -> str:
    """Return an address for people, without a user and a password."""
    return repr(address.rpartition("@")[2][:100])


def _userinfo(user: str | None, password: str | None) -> str:
    return f"{unquote(user)}:{unquote(password or '')}" if user else ""


def _expanded(value: str, variables: Mapping[str, str]) -> str:
    """Return a value of a configuration with its ``${NAME}``."""
    for name, content in variables.items():
        value = value.replace(f"${{{name}}}", content)
    return value


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[:_MOST_BYTES]
    except OSError:
        return ""


def _toml_of(home: Path, name: str) -> dict[str, Any]:
    text = _text_of(home / f"{name}.toml") or _text_of(home / name)
    try:
        return read_toml(text.encode(), _MOST_BYTES)
    except UnreadableDocumentError as error:
        raise NotPreparedError(f"{home / name} of your cargo cannot be read: {error}") from error


def _tables(table: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, each) for name, each in table.items() if isinstance(each, dict))
