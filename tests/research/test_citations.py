"""The citations rule: a quote counts only where it stands in the stored text."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from gatewright.contracts.reports import EvidenceBundle, EvidenceClaim, EvidenceQuote, EvidenceSource
from gatewright.rules.reports.citations import MISSING, NOT_FOUND, NOT_INDEPENDENT, broken_citations, locate_quote

TEXT = "The queue holds at most 512 messages for each consumer.\nA consumer that is slow loses none of them."
QUOTE = "holds at most 512 messages"


def findings(*quotes: EvidenceQuote) -> EvidenceBundle:
    claim = EvidenceClaim(claim="The limit is 512.", sources=("s1",), quotes=quotes)
    source = EvidenceSource(name="s1", uri="https://docs.example/limits")
    return EvidenceBundle(
        bundle_id="b",
        created_at="2026-01-02T03:04:05Z",
        requested_by="ada",
        query="How many?",
        sources=(source,),
        claims=(claim,),
        limitations=(),
    )


def quote(text: str, offset: int, source: str = "s1") -> EvidenceQuote:
    return EvidenceQuote(source=source, text=text, offset=offset)


def codes(bundle: EvidenceBundle, texts: dict[str, str] | None = None, hosts: int = 1) -> list[str]:
    return [broken.code for broken in broken_citations(bundle, {"s1": TEXT} if texts is None else texts, hosts)]


def test_a_verbatim_quote_at_its_offset_passes() -> None:
    assert codes(findings(quote(QUOTE, TEXT.index(QUOTE)))) == []


FORGED = [
    ("The queue holds at most 513 messages", 0),
    ("the queue holds at most 512 messages", 0),
    ("The queue holds at most 512 messages.", 0),
    ("The queue holds at most 512  messages", 0),
    ("The queue holds at most 512\u00a0messages", 0),
    ("The queue holds at most 512 mess\u0430ges", 0),
    ("The queue holds at most 512 messages\u200b", 0),
    ("The queue holds ... messages for each consumer", 0),
    ("queue The holds at most 512 messages", 0),
    (QUOTE, 0),
    (QUOTE, TEXT.index(QUOTE) + 1),
    (QUOTE, TEXT.index(QUOTE) - 1),
    (QUOTE, len(TEXT)),
    (QUOTE, 10**9),
    (TEXT + TEXT, 0),
    (TEXT + "!", 0),
    ("consumer.A consumer that is slow", 46),
    ("A consumer that is fast loses none", 56),
    ("512", TEXT.index("512")),
    ("The queue", 0),
    ("... ... ... ...", 0),
    (" " * 40, 0),
    ("<p>The queue holds at most 512 messages", 0),
    ("The queue holds at most &#53;12 messages", 0),
    ("THE QUEUE HOLDS AT MOST 512 MESSAGES", 0),
    ("messages 512 most at holds queue The", 0),
    ("No limit is documented for this queue", 0),
]


@pytest.mark.parametrize(("text", "offset"), FORGED)
def test_a_forged_quote_is_refused(text: str, offset: int) -> None:
    assert codes(findings(quote(text, offset))) == [NOT_FOUND]


def test_a_quote_of_an_unstored_source_is_refused() -> None:
    assert codes(findings(quote(QUOTE, TEXT.index(QUOTE))), {}) == [NOT_FOUND]


def test_a_quote_of_a_source_that_the_claim_omits_is_refused() -> None:
    bundle = findings(quote(QUOTE, TEXT.index(QUOTE), "s2"))
    assert codes(bundle, {"s1": TEXT, "s2": TEXT}) == [NOT_FOUND]


def test_two_sources_of_one_name_are_refused() -> None:
    bundle = findings(quote(QUOTE, TEXT.index(QUOTE)))
    assert codes(replace(bundle, sources=bundle.sources * 2)) == [NOT_FOUND]


def test_a_claim_needs_a_quote_and_findings_need_a_claim() -> None:
    assert codes(findings()) == [MISSING]
    assert codes(replace(findings(), claims=())) == [MISSING]


def test_one_host_is_not_two_independent_ones() -> None:
    assert codes(findings(quote(QUOTE, TEXT.index(QUOTE))), hosts=2) == [NOT_INDEPENDENT]


def test_a_located_quote_is_the_verbatim_text() -> None:
    assert locate_quote(TEXT, "for each consumer. A consumer") == (37, "for each consumer.\nA consumer")
    assert locate_quote(TEXT, "for each reader") is None
    assert locate_quote(TEXT, "   ") is None


def test_random_slices_are_located_where_they_stand() -> None:
    draw = random.Random(5)  # noqa: S311 - no secret
    for _ in range(200):
        start = draw.randrange(len(TEXT) - 1)
        piece = TEXT[start : start + draw.randrange(1, 60)]
        if piece.strip():
            found = locate_quote(TEXT, piece)
            assert found is not None
            assert TEXT.startswith(found[1], found[0])
