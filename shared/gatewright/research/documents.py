"""A search index over the documents that a contract gives: input artifacts named ``document:PATH``. Nothing is requested.

The index is SQLite's FTS5, in memory, with its own ranking (BM25).
"""

from __future__ import annotations

import contextlib
import mimetypes
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final, Self

from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import DeniedError, MalformedError, SandboxError
from gatewright.research.port import REFUSED, FetchedSource, SearchHit
from gatewright.research.source_text import SourceTexts

PREFIX: Final = "document:"
NAME: Final = "documents"
#: Words of a query that count.
_MOST_WORDS: Final = 32
_SNIPPET: Final = "snippet(pages, 2, '', '', ' ... ', 40)"


def given_documents(artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    """Return the input artifacts that are documents to search."""
    return tuple(each for each in artifacts if each.name.startswith(PREFIX))


def as_fetched(address: str, content: bytes, retrieved_at: str) -> FetchedSource:
    """Return a document as if it had been fetched; the end of its name decides its type."""
    return FetchedSource(address, content, _media_type(address), retrieved_at)


class GivenDocuments:
    """The documents by address (``document:PATH``)."""

    name = NAME

    def __init__(self, contents: Mapping[str, bytes], pages: sqlite3.Connection, retrieved_at: str) -> None:
        self._contents = contents
        self._pages = pages
        self._retrieved_at = retrieved_at

    @classmethod
    async def index(cls, contents: Mapping[str, bytes], texts: SourceTexts, retrieved_at: str) -> Self:
        """Return the index over ``contents``. A document without text, such as a picture, is left out.

        Raises SandboxError if this Python's SQLite has no FTS5.
        """
        pages = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            pages.execute("CREATE VIRTUAL TABLE pages USING fts5(address UNINDEXED, title, text)")
        except sqlite3.OperationalError as error:
            raise SandboxError(f"documents cannot be searched: SQLite has no FTS5 here ({error})") from error
        for address, content in contents.items():
            with contextlib.suppress(MalformedError):
                row = (address, address.removeprefix(PREFIX), await texts.read(content, _media_type(address)))
                pages.execute("INSERT INTO pages VALUES (?, ?, ?)", row)
        return cls(contents, pages, retrieved_at)

    def may_fetch(self, address: str) -> bool:
        """See ``ResearchSource``."""
        return address in self._contents

    async def search(self, query: str, limit: int) -> tuple[SearchHit, ...]:
        """Return the best documents for the words of ``query``, the best first."""
        words = "".join(each if each.isalnum() else " " for each in query).split()[:_MOST_WORDS]
        if not words:
            return ()
        wanted = " OR ".join(f'"{word}"' for word in words)
        asked = f"SELECT address, title, {_SNIPPET} FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT ?"  # noqa: S608 - a constant
        return tuple(SearchHit(*row) for row in self._pages.execute(asked, (wanted, limit)))

    async def fetch(self, address: str) -> FetchedSource:
        """Return a document. Raises DeniedError (``research_address_refused``) for any other address."""
        content = self._contents.get(address)
        if content is None:
            raise DeniedError(f"{address[:200]} is no document of this contract", code=REFUSED)
        return as_fetched(address, content, self._retrieved_at)


def _media_type(address: str) -> str:
    known, _ = mimetypes.guess_type(address, strict=True)
    return known or "text/plain"
