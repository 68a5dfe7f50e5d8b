"""The text of a source: what a reader sees, the same for each role, in bounded time."""

from __future__ import annotations

import pytest

from gatewright.errors import MalformedError
from gatewright.research.documents import GivenDocuments
from gatewright.research.source_text import SourceTexts, text_of

PAGE = b"""<!doctype html><html><head><title>T</title><style>p{}</style></head><body>
<script>alert('no')</script><h1>Limits</h1><p>At most <b>512</b> messages &amp; no
 more.</p><ul><li>one<li>two</ul><pre>a  b
c</pre><template>hidden</template></body></html>"""


def test_a_page_becomes_its_visible_text() -> None:
    assert text_of(PAGE, "text/html; charset=utf-8") == "Limits\nAt most 512 messages & no more.\none\ntwo\na  b\nc"


@pytest.mark.parametrize(
    ("content", "media_type", "text"),
    [
        (b"a  b\r\nc", "text/plain", "a  b\nc"),
        ("größe".encode(), "text/markdown", "größe"),
        ("größe".encode("latin-1"), 'text/plain; charset="ISO-8859-1"', "größe"),
        (b"\xff", "text/plain", "\ufffd"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"</p></script></style>text", "text/html", "text"),
        (b"<script>never closed", "text/html", ""),
    ],
)
def test_text_is_decoded_by_its_type(content: bytes, media_type: str, text: str) -> None:
    assert text_of(content, media_type) == text


@pytest.mark.parametrize(("content", "media_type"), [(b"%PDF", "application/pdf"), (b"x", ""), (b"a\0b", "text/plain")])
def test_bytes_without_text_are_refused(content: bytes, media_type: str) -> None:
    with pytest.raises(MalformedError) as caught:
        text_of(content, media_type)
    assert caught.value.reason == "research_source_unreadable"


async def test_the_child_process_reads_the_same_text() -> None:
    texts = SourceTexts()
    assert await texts.read(PAGE, "text/html") == text_of(PAGE, "text/html")
    with pytest.raises(MalformedError):
        await texts.read(b"%PDF", "application/pdf")


DOCUMENTS = {
    "document:queue.md": b"# Queue\nThe queue holds at most 512 messages for each consumer.\n",
    "document:disk.md": b"# Disk\nA full disk stops the writer.\n",
    "document:picture.png": b"\x89PNG\0",
}


async def test_documents_are_found_by_their_words() -> None:
    index = await GivenDocuments.index(DOCUMENTS, SourceTexts(), "2026-01-02T03:04:05Z")
    (hit,) = await index.search("how many messages?", 5)
    assert hit.address == "document:queue.md"
    assert "512 messages" in hit.excerpt
    assert (await index.fetch(hit.address)).content == DOCUMENTS[hit.address]


@pytest.mark.parametrize("query", ["", '"', "* OR NEAR(a b)", "text:queue", "'; DROP TABLE pages; --", "nothing-here", "\0"])
async def test_a_query_is_words_and_no_syntax(query: str) -> None:
    index = await GivenDocuments.index(DOCUMENTS, SourceTexts(), "2026-01-02T03:04:05Z")
    assert isinstance(await index.search(query, 5), tuple)
    assert len(await index.search("messages", 5)) == 1
