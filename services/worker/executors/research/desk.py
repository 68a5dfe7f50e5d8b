"""The desk of one question: carries out a searcher's steps, numbers the sources, and keeps what was read.

The searcher never sees an answer except as fenced data. It can read only what a search found or a permitted host serves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gatewright.contracts.reports import EvidenceClaim, EvidenceQuote, EvidenceSource
from gatewright.contracts.vocabulary import Document, NonEmpty
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.prompts.prompt import fence_text
from gatewright.research.get_client import RequestRecord
from gatewright.research.port import REFUSED, FetchedSource, ResearchSource, SearchHit
from gatewright.research.source_text import SourceTexts
from gatewright.rules.reports.citations import is_too_short, locate_quote
from gatewright.secrets.scanner import SecretScanner

#: Results of one search, characters of a source that one step shows, and sources of one question.
_HITS: Final = 10
_SHOWN: Final = 16_000
_MOST_SOURCES: Final = 60


class ProposedQuote(Document):
    source: NonEmpty
    text: NonEmpty


class ProposedClaim(Document):
    claim: NonEmpty
    quotes: tuple[ProposedQuote, ...]


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source as it is kept: its name (``s1``), what was fetched, and its text."""

    name: str
    fetched: FetchedSource
    text: str

    @property
    def record(self) -> EvidenceSource:
        """Return its entry in the findings."""
        fetched, text = self.fetched, self.text.encode()
        return EvidenceSource(
            name=self.name,
            uri=fetched.address,
            sha256=hashlib.sha256(fetched.content).hexdigest(),
            text_sha256=hashlib.sha256(text).hexdigest(),
            media_type=fetched.media_type,
            retrieved_at=fetched.retrieved_at,
        )


@dataclass
class ResearchDesk:
    """Searches and reads for one question. ``most``: requests in all; ``log`` has each of them."""

    places: Sequence[ResearchSource]
    texts: SourceTexts
    scanner: SecretScanner
    most: int
    log: list[RequestRecord] = field(default_factory=list)
    sources: dict[str, ReadSource] = field(default_factory=dict)
    _found: dict[str, ResearchSource] = field(default_factory=dict)

    async def search(self, query: str) -> str:
        """Return the results of each place as data. What a place cannot answer is part of it."""
        blocks = []
        for place in self.places:
            try:
                self._refuse_too_many()
                hits = await place.search(query, _HITS)
            except GatewrightError as error:
                blocks.append(f"{place.name}: {error.message}")
                continue
            self._found |= {hit.address: place for hit in hits}
            blocks.append(fence_text(f"results of {place.name}", _listing(hits) or "nothing was found"))
        return "\n".join(blocks) or "there is no place to search"

    async def read(self, address: str, start: int = 0) -> str:
        """Return the text of a source from character ``start`` as data, or why it cannot be read."""
        try:
            source = self._source_at(address) or await self._fetch(address)
        except GatewrightError as error:
            return f"{address[:200]} was not read: {error.message}"
        shown = source.text[start : start + _SHOWN]
        rest = len(source.text) - start - len(shown)
        more = f"\n{rest} more characters: read again with start {start + len(shown)}" if rest > 0 else ""
        return f"source {source.name}:\n{fence_text(source.fetched.address, shown)}{more}"

    def locate_claims(self, claims: Sequence[ProposedClaim]) -> tuple[tuple[EvidenceClaim, ...], tuple[str, ...]]:
        """Return the claims with the places of their quotes, and the faults of quotes that stand nowhere."""
        texts = {source.name: source.text for source in self.sources.values()}
        faults = tuple(_claim_faults(claims, texts))
        return ((), faults) if faults else (tuple(_claim(each, texts) for each in claims), ())

    def _source_at(self, address: str) -> ReadSource | None:
        return next((each for each in self.sources.values() if address in {each.name, each.fetched.address}), None)

    async def _fetch(self, address: str) -> ReadSource:
        self._refuse_too_many()
        place = self._found.get(address)
        if place is None:
            place = next((each for each in self.places if each.may_fetch(address)), None)
        if place is None:
            raise DeniedError("no search found it, and no place in research.json may read it", code=REFUSED)
        fetched = await place.fetch(address)
        text = await self.texts.read(fetched.content, fetched.media_type)
        if self.scanner.find(text.encode()):
            raise MalformedError("it holds what looks like a secret, so it is not kept", code="secret_found")
        source = self._source_at(fetched.address) or ReadSource(f"s{len(self.sources) + 1}", fetched, text)
        self.sources[source.name] = source
        return source

    def _refuse_too_many(self) -> None:
        if len(self.log) >= self.most:
            raise DeniedError(f"{self.most} requests were sent, the limit of research.json: answer now", code="research_limit")
        if len(self.sources) >= _MOST_SOURCES:
            raise DeniedError(f"{_MOST_SOURCES} sources were read: answer now", code="research_limit")

    def log_lines(self) -> bytes:
        """Return the log, one JSON object a line."""
        return b"".join(msgspec.json.encode(each) + b"\n" for each in self.log)


def _listing(hits: Sequence[SearchHit]) -> str:
    return "\n\n".join(f"{hit.address}\n{hit.title}\n{hit.excerpt}" for hit in hits)


def _claim_faults(claims: Sequence[ProposedClaim], texts: Mapping[str, str]) -> Iterator[str]:
    if not claims:
        yield "there is no claim: without one, state what is missing as a claim about a source that you read"
    for number, claim in enumerate(claims, 1):
        if not claim.quotes:
            yield f"claim {number} has no quote"
        for quote in claim.quotes:
            if quote.source not in texts:
                yield f"claim {number}: {quote.source[:80]!r} is no source that you read"
            elif is_too_short(quote.text):
                yield f"claim {number}: {quote.text[:80]!r} is too short: quote a sentence"
            elif locate_quote(texts[quote.source], quote.text) is None:
                yield f"claim {number}: {quote.text[:80]!r} does not stand in {quote.source}: quote it word by word"


def _claim(claim: ProposedClaim, texts: Mapping[str, str]) -> EvidenceClaim:
    quotes = []
    for quote in claim.quotes:
        located = locate_quote(texts[quote.source], quote.text)
        if located is not None:
            quotes.append(EvidenceQuote(source=quote.source, text=located[1], offset=located[0]))
    named = dict.fromkeys(quote.source for quote in quotes)
    return EvidenceClaim(claim=claim.claim, sources=tuple(named), quotes=tuple(quotes))
