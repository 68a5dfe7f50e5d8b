"""``egress.json``: the package registries that an installer in a box may read, and the limits of one pull.

Without the file the public registries of PyPI, npm, crates.io, Go and Maven are allowed.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from gatewright.policy_files import PolicyFile, PolicyModel

Ecosystem = Literal["python", "node", "rust", "go", "java", "any"]
_MIB: Final = 1 << 20


class EgressSource(PolicyModel):
    """One registry: its hosts (exact names, or ``*.suffix``; ``host:port`` names one port), and what they may be.

    ``private``: the hosts may resolve to private addresses. ``http``: plain HTTP is allowed too. ``credential``: name of a
    variable with ``user:password``, a token, or a whole Authorization value. ``index``: path of the registry's index.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    hosts: tuple[str, ...] = Field(min_length=1, max_length=50)
    ports: tuple[int, ...] = (443,)
    ecosystem: Ecosystem = "any"
    index: str = ""
    private: bool = False
    http: bool = False
    credential: str = ""


#: The public registries.
PUBLIC: Final = (
    EgressSource(name="pypi", hosts=("pypi.org", "files.pythonhosted.org"), ecosystem="python", index="/simple"),
    EgressSource(name="npm", hosts=("registry.npmjs.org", "registry.yarnpkg.com"), ecosystem="node"),
    EgressSource(name="crates", hosts=("index.crates.io", "static.crates.io", "crates.io"), ecosystem="rust"),
    EgressSource(name="go", hosts=("proxy.golang.org", "sum.golang.org"), ecosystem="go"),
    EgressSource(name="maven", hosts=("repo.maven.apache.org",), ecosystem="java", index="/maven2"),
)


class EgressPolicy(PolicyModel):
    """The registries, and the limits of one pull.

    ``requests`` and ``total_bytes`` count for the whole pull, ``answer_bytes`` and ``seconds`` for one request.
    """

    version: Literal["1"]
    sources: tuple[EgressSource, ...] = PUBLIC
    requests: int = Field(default=20_000, ge=1, le=1_000_000)
    answer_bytes: int = Field(default=2048 * _MIB, ge=1024)
    total_bytes: int = Field(default=16_384 * _MIB, ge=1024)
    seconds: float = Field(default=600.0, gt=0, le=7200)
    redirects: int = Field(default=5, ge=0, le=20)


EGRESS_FILE: Final = PolicyFile("egress.json", EgressPolicy, default=lambda: EgressPolicy(version="1"))
