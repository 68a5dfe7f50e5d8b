"""Readers of JSON, TOML and XML of foreign origin, which translate all errors of the parsers into one.

Besides its own errors, ``msgspec`` raises UnicodeDecodeError for bytes that are not UTF-8, and RecursionError for values
that are nested too deeply. ``tomllib`` raises a plain ValueError for a number of more than 4,300 digits. It accepts a long
hexadecimal number, for which ``str`` raises later. A caller that catches the documented error alone ends with a traceback.
The linter forbids these parsers outside this module.
"""

from __future__ import annotations

import tomllib  # noqa: TID251 - the one place
from typing import Any, Generic, TypeVar, overload
from xml.etree.ElementTree import Element, ParseError, fromstring

import msgspec

T = TypeVar("T")

#: Bytes of a TOML document, unless the caller allows more.
MOST_TOML_BYTES = 256 << 10
#: Dots in one line of TOML: the time for a dotted key grows with the square of its parts.
_MOST_DOTS = 100
_INTEGERS = 1 << 63


class UnreadableDocumentError(ValueError):
    """The bytes are no document of the expected kind. The caller turns it into an error of its own family."""


class JsonReader(Generic[T]):
    """Reads documents of one kind; faster than ``read_json`` for many of them."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)  # noqa: TID251 - the one place

    def decode(self, data: bytes | str | msgspec.Raw) -> T:
        """The document. Raises UnreadableDocumentError."""
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise UnreadableDocumentError(str(error)) from error


@overload
def read_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def read_json(data: bytes | str, kind: Any = Any) -> Any: ...
def read_json(data: bytes | str, kind: Any = Any) -> Any:
    """``data`` as a ``kind``, of which msgspec knows what its fields are. Raises UnreadableDocumentError."""
    try:
        return msgspec.json.decode(data, type=kind)  # noqa: TID251 - the one place
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableDocumentError(str(error)) from error


def table_of(document: Any, *names: str) -> dict[str, Any]:
    """The table at ``names``, one in the other, or ``document`` itself; an empty one where there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def read_xml(content: bytes) -> Element:
    """The root of a document of UTF-8 without a DTD, which could define entities. Raises UnreadableDocumentError."""
    text = content.decode("utf-8", "replace")
    if "<!DOCTYPE" in text:
        raise UnreadableDocumentError("it has a DTD")
    try:
        return fromstring(text)  # noqa: S314 - without a DTD
    except (ParseError, ValueError) as error:
        raise UnreadableDocumentError(str(error)) from error


def read_toml(content: bytes | str, most_bytes: int = MOST_TOML_BYTES) -> dict[str, Any]:
    """The document, in time that grows with its size. Raises UnreadableDocumentError, also for one that is too large."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        raise UnreadableDocumentError(str(error)) from error
    if len(text) > most_bytes:
        raise UnreadableDocumentError(f"it has more than {most_bytes} bytes")
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise UnreadableDocumentError(f"a line has more than {_MOST_DOTS} dots")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableDocumentError(str(error)) from error
    _check_integers(document)
    return document


def _check_integers(document: dict[str, Any]) -> None:
    """A reader refuses an integer of more than 64 bits (TOML 1.0, Integer). Python cannot write a very long one as text."""
    left: list[Any] = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
            raise UnreadableDocumentError("an integer has more than 64 bits")
