"""The content of a manifest or lock file: its packages with their sources, and other settings that run code. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit


class Source(StrEnum):
    """The source of a package."""

    REGISTRY = "a registry"
    GIT = "git"
    URL = "a URL"
    PATH = "a path"
    ALIAS = "another package"


class Kind(StrEnum):
    """The other settings of a file; the values are shown to people before a name."""

    INDEX = "package index"
    SCRIPT = "script that runs on installation"
    OVERRIDE = "override"
    BACKEND = "build backend"
    PROGRAM = "installed command"
    ENTRY = "place that importers get"


class Package(NamedTuple):
    """A package. ``place`` is its address or folder, or the host of a registry; empty if the file has none."""

    version: str
    source: Source = Source.REGISTRY
    place: str = ""


#: Default registries; a package from one of these needs no remark.
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
    """The content of one version of a file. ``others`` are values by kind and name."""

    packages: dict[str, Package] = field(default_factory=dict)
    others: dict[tuple[Kind, str], str] = field(default_factory=dict)

    def package(self, name: object, given: object) -> None:
        """A package as most files write one: a version with a source in it, or a table."""
        if isinstance(name, str) and name:
            self.packages[name] = package_of(given)

    def record(self, kind: Kind, name: str, value: object) -> None:
        """Record another setting; a missing value is ignored."""
        if value is not None and value not in ([], {}):
            self.others[kind, name] = in_words(value)

    def tables(self, kind: Kind, prefix: str, values: object) -> None:
        """Record one setting for each leaf of a nested table."""
        for name, value in leaves(values, prefix):
            self.record(kind, name, value)


#: Tables in tables that are looked into.
_DEEPEST: Final = 8
_GIT_STARTS: Final = ("git+", "git:", "git@", "ssh:", "github:", "gitlab:", "bitbucket:", "gist:", "hg+", "svn+", "bzr+")
_PATH_STARTS: Final = ("file:", "link:", "portal:", "path:", "workspace:", "./", "../", "/", "~/")


def package_of(given: object) -> Package:
    """The version and source of a package, by a requirement or a table of one."""
    if isinstance(given, dict):
        return _of_table(given)
    if isinstance(given, list):
        return package_of(given[0]) if given else Package("")
    text = in_words(given).strip()
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


def _of_table(given: Mapping[Any, Any]) -> Package:
    version = in_words(given.get("version", given.get("ref", "")))
    for key, source in (("git", Source.GIT), ("url", Source.URL), ("file", Source.URL), ("path", Source.PATH)):
        if key in given:
            more = "".join(f" {each}={in_words(given[each])}" for each in ("branch", "tag", "rev", "ref") if each in given)
            return Package(version, source, in_words(given[key]) + more)
    place = in_words(given.get("registry", given.get("index", given.get("source", ""))))
    return Package(version, Source.REGISTRY, place)


def _is_shorthand(text: str) -> bool:
    """``owner/repository`` of npm."""
    owner, slash, name = text.partition("#")[0].partition("/")
    return bool(slash and owner and name) and "/" not in name and not owner.startswith(("@", ".", "~")) and " " not in text


def from_address(version: str, address: str) -> Package:
    """Return a package of a lock file that names the address of its archive."""
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
