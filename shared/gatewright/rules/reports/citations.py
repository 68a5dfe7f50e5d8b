"""Citations: each claim of a searcher has a quote, and each quote stands in the text of its stored source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from gatewright.contracts.reports import EvidenceBundle, EvidenceClaim, EvidenceQuote
from gatewright.rules.broken import Broken

RULE: Final = "citations"
MISSING: Final = "citation_missing"
NOT_FOUND: Final = "citation_not_found"
NOT_INDEPENDENT: Final = "citations_not_independent"
CODES: Final = frozenset({MISSING, NOT_FOUND, NOT_INDEPENDENT})
#: Letters and digits of the shortest quote: shorter ones stand in any text.
_LEAST_QUOTE: Final = 12
_QUOTED: Final = 80


def broken_citations(bundle: EvidenceBundle, texts: Mapping[str, str], hosts: int) -> Iterator[Broken]:
    """Yield the faults of all claims.

    1. There is a claim, and each claim has a quote.
    2. Each quote is long enough to identify its place, and stands in the stored text at its offset.
    3. A claim names the sources of its quotes, and no others.
    4. The quotes of a claim come from at least ``hosts`` hosts.

    Args:
        bundle: the findings.
        texts: the stored text by name of the source; names without a stored text are absent.
        hosts: the number of independent hosts that the policy requires.
    """
    if not bundle.claims:
        yield Broken(MISSING, RULE, "the findings have no claim")
    addresses = {source.name: source.uri for source in bundle.sources}
    if len(addresses) < len(bundle.sources):
        yield Broken(NOT_FOUND, RULE, "two sources have one name")
    for number, claim in enumerate(bundle.claims, 1):
        if not claim.quotes:  # 1
            yield Broken(MISSING, RULE, f"claim {number} has no quote: {claim.claim[:_QUOTED]!r}")
            continue
        for quote in claim.quotes:  # 2
            if why := fault_of(quote, texts):
                yield Broken(NOT_FOUND, RULE, f"claim {number}: {why}")
        yield from _broken_sources(number, claim, addresses, hosts)


def _broken_sources(number: int, claim: EvidenceClaim, addresses: Mapping[str, str], hosts: int) -> Iterator[Broken]:
    quoted = {quote.source for quote in claim.quotes}
    if quoted != {*claim.sources}:  # 3
        yield Broken(NOT_FOUND, RULE, f"claim {number} names other sources than its quotes do")
    found = {urlsplit(addresses.get(name, "")).hostname or "" for name in quoted}
    if len(found) < hosts:  # 4
        yield Broken(NOT_INDEPENDENT, RULE, f"claim {number} quotes {len(found)} hosts; research.json requires {hosts}")


def is_too_short(quoted: str) -> bool:
    """Return whether a quote has too few letters and digits to identify a place."""
    return sum(letter.isalnum() for letter in quoted) < _LEAST_QUOTE


def fault_of(quote: EvidenceQuote, texts: Mapping[str, str]) -> str:
    """Return why a quote does not hold; empty if it does."""
    text = texts.get(quote.source)
    if text is None:
        return f"source {quote.source[:_QUOTED]!r} is not stored"
    if is_too_short(quote.text):
        return f"{quote.text[:_QUOTED]!r} is too short to identify a place"
    if not text.startswith(quote.text, quote.offset):
        return f"{quote.text[:_QUOTED]!r} does not stand in source {quote.source!r} at {quote.offset}"
    return ""


def locate_quote(text: str, quoted: str) -> tuple[int, str] | None:
    """Return the offset of ``quoted`` in ``text`` and its verbatim form; None if it is absent. Whitespace may differ."""
    offset = text.find(quoted)
    if offset >= 0:
        return offset, quoted
    words, places = quoted.split(), _words_of(text)
    plain = [word for word, _ in places]
    for start in range(len(plain) - len(words) + 1 if words else 0):
        if plain[start] == words[0] and plain[start : start + len(words)] == words:
            begin, end = places[start][1], places[start + len(words) - 1][1] + len(words[-1])
            return begin, text[begin:end]
    return None


def _words_of(text: str) -> list[tuple[str, int]]:
    """Return the words of a text with their offsets."""
    found, offset = [], 0
    for word in text.split():
        offset = text.index(word, offset)
        found.append((word, offset))
        offset += len(word)
    return found
