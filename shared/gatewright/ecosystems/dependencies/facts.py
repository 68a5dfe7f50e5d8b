"""What a manifest or lock file says: its packages with their sources, and what else decides which code runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit


class UnreadableError(ValueError):
    """This version of the file cannot be taken apart."""


class Source(StrEnum):
    """Where a package comes from."""

    REGISTRY = "a registry"
    GIT = "git"
    URL = "a URL"
    PATH = "a path"
    ALIAS = "another package"


class Kind(StrEnum):
    """What else a file says, as people read it before its name."""

    INDEX = "package index"
    SCRIPT = "script that runs on installation"
    OVERRIDE = "override"
    BACKEND = "build backend"
    PROGRAM = "installed command"
    ENTRY = "place that importers get"


class Package(NamedTuple):
    """``place`` is the address or folder, or the host of a registry; empty where the file does not say."""

    version: str
    source: Source = Source.REGISTRY
    place: str = ""


#: Registries that programs ask where nothing else is said; a package of one of these needs no remark.
USUAL_HOSTS: Final = frozenset(
    {
        *(
            "",
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "npm.jsr.io",
            "jsr.io",
            "deno.land",
            "pypi.org",
            "files.pythonhosted.org",
        ),
        *("github.com/rust-lang/crates.io-index", "index.crates.io", "rubygems.org", "repo.packagist.org", "packagist.org"),
        *("pub.dev", "pub.dartlang.org", "hex.pm", "repo.maven.apache.org", "api.nuget.org", "proxy.golang.org"),
    }
)


@dataclass
class Facts:
    """What one version of a file says. ``others`` are values by kind and name."""

    packages: dict[str, Package] = field(default_factory=dict)
    others: dict[tuple[Kind, str], str] = field(default_factory=dict)

    def package(self, name: object, said: object) -> None:
        """A package as most files write one: a version with a source in it, or a table."""
        if isinstance(name, str) and name:
            self.packages[name] = package_of(said)

    def say(self, kind: Kind, name: str, value: object) -> None:
        """Anything else; nothing for a value that is not there."""
        if value is not None and value not in ([], {}):
            self.others[kind, name] = in_words(value)

    def tables(self, kind: Kind, prefix: str, values: object) -> None:
        """One for each name of a table, however deep."""
        for name, value in leaves(values, prefix):
            self.say(kind, name, value)


#: Tables in tables that are looked into.
_DEEPEST: Final = 8
_GIT_STARTS: Final = ("git+", "git:", "git@", "ssh:", "github:", "gitlab:", "bitbucket:", "gist:", "hg+", "svn+", "bzr+")
_PATH_STARTS: Final = ("file:", "link:", "portal:", "path:", "workspace:", "./", "../", "/", "~/")


def package_of(said: object) -> Package:
    """The version and source of a package, by a requirement or a table of one."""
    if isinstance(said, dict):
        return _of_table(said)
    if isinstance(said, list):
        return package_of(said[0]) if said else Package("")
    text = in_words(said).strip()
    requirement = text.partition(" @ ")[2].strip() or text
    if requirement.startswith(_PATH_STARTS):
        return Package("", Source.PATH, requirement)
    if requirement.startswith(_GIT_STARTS) or requirement.split("#")[0].endswith(".git") or _is_shorthand(requirement):
        return Package("", Source.GIT, requirement)
    if requirement.startswith(("http:", "https:", "ftp:")):
        return Package("", Source.URL, requirement)
    if requirement.startswith("npm:"):
        return Package("", Source.ALIAS, requirement)
    return Package(text)


def _of_table(said: Mapping[Any, Any]) -> Package:
    version = in_words(said.get("version", said.get("ref", "")))
    for key, source in (("git", Source.GIT), ("url", Source.URL), ("file", Source.URL), ("path", Source.PATH)):
        if key in said:
            more = "".join(f" {each}={in_words(said[each])}" for each in ("branch", "tag", "rev", "ref") if each in said)
            return Package(version, source, in_words(said[key]) + more)
    place = in_words(said.get("registry", said.get("index", said.get("source", ""))))
    return Package(version, Source.REGISTRY, place)


def _is_shorthand(text: str) -> bool:
    """``owner/repository`` of npm."""
    owner, slash, name = text.partition("#")[0].partition("/")
    return bool(slash and owner and name) and "/" not in name and not owner.startswith(("@", ".", "~")) and " " not in text


def from_address(version: str, address: str) -> Package:
    """A package of a lock file that names where its archive lies."""
    if not address:
        return Package(version)
    if address.startswith(_GIT_STARTS) or address.split("#", maxsplit=1)[0].endswith(".git"):
        return Package(version, Source.GIT, address)
    if address.startswith(_PATH_STARTS):
        return Package(version, Source.PATH, address)
    return Package(version, Source.REGISTRY, host_of(address))


def host_of(address: str) -> str:
    """The host of a URL; of an index of crates on a forge, with its path."""
    try:
        parts = urlsplit(address.removeprefix("registry+").removeprefix("sparse+"))
        host = parts.hostname or address
    except ValueError:
        return address
    return f"{host}{parts.path}" if host in {"github.com", "gitlab.com"} else host


def in_words(value: object) -> str:
    """A value on one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list):
        return ", ".join(in_words(each) for each in value[:20])
    if isinstance(value, dict):
        return ", ".join(f"{key}={in_words(each)}" for key, each in list(value.items())[:20])
    return "" if value is None else str(value)


def leaves(values: object, prefix: str, depth: int = 0) -> Iterator[tuple[str, object]]:
    """The values of tables in tables, with their dotted names."""
    if isinstance(values, dict) and depth < _DEEPEST:
        for key, value in values.items():
            yield from leaves(value, f"{prefix}.{key}", depth + 1)
    elif values is not None:
        yield prefix, values
