"""``research.json``: the search services that a searcher may ask, the hosts that it may read, and its limits.

Without the file a searcher has only the documents that its contract gives.
"""

from __future__ import annotations

from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from gatewright.egress.policy import allows_host, check_hosts
from gatewright.policy_files import PolicyFile, PolicyModel


class SearchService(PolicyModel):
    """A SearXNG instance, and the hosts of pages that may be fetched: exact names, or ``*.suffix``.

    ``private``: hosts may resolve to private addresses, and ``http`` is allowed. Redirects are judged like first requests.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    kind: Literal["searxng"]
    base_url: str = Field(max_length=2000)
    hosts: tuple[str, ...] = Field(min_length=1, max_length=200)
    private: bool = False

    @field_validator("base_url")
    @classmethod
    def _base_url(cls, address: str) -> str:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("an address is http(s)://HOST[:PORT][/PATH], with no user, query or fragment")
        return address.rstrip("/")

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        return check_hosts(hosts)

    @model_validator(mode="after")
    def _require_https(self) -> Self:
        if not self.private and not self.base_url.startswith("https://"):
            raise ValueError("a search service that is not private needs https")
        return self

    def allows(self, host: str) -> bool:
        """Return whether pages of ``host`` may be fetched."""
        return allows_host(self.hosts, host)


class ResearchPolicy(PolicyModel):
    """Limits of one task: ``requests`` in all, ``bytes`` of one answer, ``seconds`` of one request.

    ``turns``: answers of the model. ``keep_hours``: how long an answer from the network is used again without a request.
    ``independent_hosts``: the number of hosts that each claim needs quotes from.
    """

    version: Literal["1"]
    services: tuple[SearchService, ...] = ()
    requests: int = Field(default=40, ge=0, le=500)
    bytes: int = Field(default=2 << 20, ge=1024, le=32 << 20)
    seconds: float = Field(default=20.0, gt=0, le=120)
    turns: int = Field(default=24, ge=1, le=100)
    keep_hours: int = Field(default=24, ge=0, le=24 * 365)
    independent_hosts: int = Field(default=1, ge=1, le=5)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [each.name for each in self.services]
        if len({*names}) != len(names):
            raise ValueError("two services have one name")
        return self


RESEARCH_FILE: Final = PolicyFile("research.json", ResearchPolicy, default=lambda: ResearchPolicy(version="1"))
