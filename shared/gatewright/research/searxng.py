"""A SearXNG instance as a place to search: its ``/search`` endpoint with ``format=json``, by GET.

API: https://docs.searxng.org/dev/search_api.html. The operator enables the format ``json`` there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from gatewright.errors import UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.research.port import UNAVAILABLE, FetchedSource, RefusedBySiteError, SearchHit

if TYPE_CHECKING:
    from gatewright.research.get_client import GetClient
    from gatewright.research.policy import SearchService

#: Characters of a title, an excerpt and a query.
_MOST: Final = 500


class _Result(msgspec.Struct):
    url: str
    title: str = ""
    content: str = ""


class _Answer(msgspec.Struct):
    results: tuple[_Result, ...] = ()


class SearXng:
    """Searches by one instance. Results on hosts that may not be fetched are left out."""

    def __init__(self, service: SearchService, client: GetClient) -> None:
        self.name = service.name
        self._service = service
        self._client = client

    def may_fetch(self, address: str) -> bool:
        """See ``ResearchSource``."""
        return self._client.may_fetch(address)

    async def search(self, query: str, limit: int) -> tuple[SearchHit, ...]:
        """See ``ResearchSource``."""
        asked = urlencode({"q": query[:_MOST], "format": "json"})
        try:
            answer = await self._client.get(f"{self._service.base_url}/search?{asked}", own=True)
        except RefusedBySiteError as error:
            words = f"{error.message}; SearXNG does so unless the `search.formats` of its settings have json"
            raise UnavailableError(words, code=UNAVAILABLE) from error
        try:
            results = read_json(answer.content, _Answer).results
        except UnreadableDocumentError as error:
            words = f"{self.name} did not answer with SearXNG's JSON: enable the format json in its settings"
            raise UnavailableError(words, code=UNAVAILABLE) from error
        hits = (SearchHit(each.url[:2000], each.title[:_MOST], each.content[:_MOST]) for each in results)
        return tuple(hit for hit in hits if self.may_fetch(hit.address))[:limit]

    async def fetch(self, address: str) -> FetchedSource:
        """See ``ResearchSource``."""
        return await self._client.get(address)
