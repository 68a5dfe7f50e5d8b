"""``egress.json``: the package registries that an installer in a box may read, and the limits of one pull.

Without the file the public registries of PyPI, npm, crates.io, Go and Maven are allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from gatewright.patterns import TextPattern
from gatewright.policy_files import PolicyFile, PolicyModel

Ecosystem = Literal["python", "node", "rust", "go", "java", "git", "any"]
_MIB: Final = 1 << 20
_NAME: Final = TextPattern(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts of a policy. Raises ValueError for one that is neither a lower-case name nor ``*.suffix``."""
    for host in hosts:
        name = host.removeprefix("*.")
        if not name or "*" in name or "/" in name or not name.isascii() or name != name.lower().strip():
            raise ValueError(f"{host!r}: a host is a lower-case name, or *.suffix")
    return hosts


def allows_host(hosts: Iterable[str], host: str) -> bool:
    """Return whether one of ``hosts`` (exact names, or ``*.suffix``) is, or covers, ``host``."""
    return any(host.endswith(each[1:]) if each.startswith("*.") else host == each for each in hosts)


def is_host(host: str) -> bool:
    """Return whether the text is a canonical host: a lower-case name of letters, or an IPv4 address in its usual form.

    Names that end in a number are refused: resolvers read some of them as addresses.
    """
    if _NAME.fullmatch(host) is not None:
        return len(host) <= 253
    try:
        return str(ipaddress.IPv4Address(host)) == host
    except ValueError:
        return False


class EgressSource(PolicyModel):
    """One registry. It is read with GET and HEAD only.

    ``hosts``: exact names, or ``*.suffix``, at ``ports``; ``name:port`` is one port of one host. ``private``: hosts may be or
    resolve to private addresses. ``http``: http is allowed too. ``index``: path of the index, of which ``ecosystem`` names
    the protocol. ``credential``: name of the variable with ``user:password``, a token, or a whole Authorization value.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    hosts: tuple[str, ...] = Field(min_length=1, max_length=50)
    ports: tuple[int, ...] = (443,)
    ecosystem: Ecosystem = "any"
    index: str = Field(default="/", pattern=r"^/[A-Za-z0-9._~+/@-]{0,200}$")
    private: bool = False
    http: bool = False
    credential: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,127})?$")

    @model_validator(mode="after")
    def _host_forms(self) -> Self:
        for host in check_hosts(self.hosts):
            name, _, port = host.partition(":")
            numbered = host == name or (port.isdecimal() and 0 < int(port) < 65536)
            if (
                not is_host(name.removeprefix("*."))
                or not numbered
                or (name.rpartition(".")[2].isdecimal() and not self.private)
            ):
                raise ValueError(f"{host!r}: a host is a lower-case name or *.suffix; only a private source names an address")
        return self

    def allows(self, scheme: str, host: str, port: int) -> bool:
        """Return whether an address with these parts belongs to the source."""
        if scheme != "https" and not (self.http and scheme == "http"):
            return False
        return f"{host}:{port}" in self.hosts or (port in self.ports and allows_host(self.hosts, host))


def source_of(sources: Iterable[EgressSource], scheme: str, host: str, port: int) -> EgressSource | None:
    """Return the first source that allows an address with these parts."""
    return next((each for each in sources if each.allows(scheme, host, port)), None)


#: The public registries.
PUBLIC: Final = (
    EgressSource(name="pypi", hosts=("pypi.org", "files.pythonhosted.org"), ecosystem="python", index="/simple"),
    EgressSource(name="npm", hosts=("registry.npmjs.org", "registry.yarnpkg.com"), ecosystem="node"),
    EgressSource(name="crates", hosts=("index.crates.io", "static.crates.io", "crates.io"), ecosystem="rust"),
    EgressSource(name="go", hosts=("proxy.golang.org", "sum.golang.org"), ecosystem="go"),
    EgressSource(name="maven", hosts=("repo.maven.apache.org",), ecosystem="java", index="/maven2"),
)


class EgressPolicy(PolicyModel):
    """The registries, and the limits of one pull: ``requests`` and ``total_bytes``.

    ``answer_bytes`` and ``seconds`` limit one request, ``redirects`` a chain of them. ``file``: where the operator writes it.
    """

    file: ClassVar[str] = "egress.json"
    version: Literal["1"]
    sources: tuple[EgressSource, ...] = Field(default=PUBLIC, max_length=100)
    requests: int = Field(default=20_000, ge=1, le=1_000_000)
    answer_bytes: int = Field(default=2048 * _MIB, ge=1)
    total_bytes: int = Field(default=16_384 * _MIB, ge=1)
    seconds: float = Field(default=600.0, gt=0, le=7200)
    redirects: int = Field(default=5, ge=0, le=20)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({each.name for each in self.sources}) != len(self.sources):
            raise ValueError("two sources have one name")
        return self


EGRESS_FILE: Final = PolicyFile("egress.json", EgressPolicy, default=lambda: EgressPolicy(version="1"))
