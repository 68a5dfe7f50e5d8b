"""What a searcher can ask: places to search, each of which also reads the addresses that it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gatewright.errors import UnavailableError

REFUSED: Final = "research_address_refused"
UNAVAILABLE: Final = "research_source_unavailable"


class RefusedBySiteError(UnavailableError):
    """A site answered with status 403."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result: an address that may be fetched, its title and an excerpt. All three are text of strangers."""

    address: str
    title: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class FetchedSource:
    """What an address answered. ``address`` is the last one after redirects, ``retrieved_at`` an RFC 3339 time."""

    address: str
    content: bytes
    media_type: str
    retrieved_at: str


class ResearchSource(Protocol):
    """One place to search. Every answer is untrusted."""

    @property
    def name(self) -> str:
        """Return the name in the policy."""

    def may_fetch(self, address: str) -> bool:
        """Return whether the policy allows to fetch the address; nothing is requested."""

    async def search(self, query: str, limit: int) -> tuple[SearchHit, ...]:
        """Return at most ``limit`` results, the best first. Raises UnavailableError (``research_source_unavailable``)."""

    async def fetch(self, address: str) -> FetchedSource:
        """Return the content of an address.

        Raises:
            DeniedError: the policy does not allow the address (``research_address_refused``).
            UnavailableError: it gave no usable answer (``research_source_unavailable``).
        """
