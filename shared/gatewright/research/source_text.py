"""The text of a source, in which quotes are found: derived from its bytes, so that each role derives the same.

Hostile pages are parsed in a child process with limits.
"""

from __future__ import annotations

import html.parser
from typing import Final

import msgspec

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.errors import MalformedError

UNREADABLE: Final = "research_source_unreadable"
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_PLAIN: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/toml", "application/javascript"}
)
#: Elements without text for readers, and those that end a line.
_SILENT: Final = frozenset({"script", "style", "template", "noscript", "head", "svg"})
_BLOCKS: Final = frozenset(
    {"article", "blockquote", "br", "dd", "div", "dt", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "li"}
    | {"ol", "p", "pre", "section", "table", "tr", "ul"}
)
#: Bytes of one source.
MOST_BYTES: Final = 32 << 20


_FUNCTION: Final = "gatewright.research.source_text:read_question"
_BOUNDS: Final = ProcessBounds(seconds=20, memory=2 << 30)


class SourceTexts:
    """Reads the texts of sources in a child process."""

    def __init__(self) -> None:
        self._judge = BoundedJudge(_FUNCTION, _BOUNDS)

    async def read(self, content: bytes, media_type: str) -> str:
        """Return the text as ``text_of`` does. Raises also BeyondLimitError (``judgement_limit``)."""
        text, fault = msgspec.msgpack.decode(
            await self._judge.ask(msgspec.msgpack.encode((content, media_type))), type=tuple[str, str]
        )
        if fault:
            raise MalformedError(fault, code=UNREADABLE)
        return text


def read_question(question: bytes) -> bytes:
    """Answer a question of ``SourceTexts``, in the child."""
    content, media_type = msgspec.msgpack.decode(question, type=tuple[bytes, str])
    try:
        answer = (text_of(content, media_type), "")
    except MalformedError as error:
        answer = ("", error.message)
    return msgspec.msgpack.encode(answer)


def text_of(content: bytes, media_type: str) -> str:
    """Return the text that a reader sees.

    Args:
        content: the stored bytes.
        media_type: the ``Content-Type``, with its ``charset`` where it has one.

    Raises:
        MalformedError: the bytes are no text (``research_source_unreadable``).
    """
    kind, _, parameters = media_type.partition(";")
    kind = kind.strip().lower()
    if kind not in _HTML and kind not in _PLAIN and not kind.startswith("text/"):
        raise MalformedError(f"a source of type {kind[:80] or 'unknown'} has no text to quote", code=UNREADABLE)
    if len(content) > MOST_BYTES or b"\0" in content:
        raise MalformedError("a source is too large, or holds bytes that are no text", code=UNREADABLE)
    text = content.decode(_charset(parameters), "replace").replace("\r\n", "\n")
    return _visible_text(text) if kind in _HTML else text


def _charset(parameters: str) -> str:
    for part in parameters.split(";"):
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset" and value.strip("\"' ").lower() in {"iso-8859-1", "latin-1", "windows-1252"}:
            return "windows-1252"
    return "utf-8"


class _Text(html.parser.HTMLParser):
    """Collector of the text outside of silent elements; whitespace becomes one space, except inside ``pre``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent: list[str] = []
        self._kept = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - of the parser
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag in _BLOCKS:
            self.parts.append("\n")
        self._kept += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag in _BLOCKS:
            self.parts.append("\n")
        self._kept -= tag == "pre" and self._kept > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data if self._kept else " ".join(f".{data}.".split())[1:-1])


def _visible_text(markup: str) -> str:
    collector = _Text()
    collector.feed(markup)
    collector.close()
    lines = (line.strip() for line in "".join(collector.parts).split("\n"))
    return "\n".join(line for line in lines if line)
