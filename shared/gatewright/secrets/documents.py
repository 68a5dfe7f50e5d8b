"""Secrets in the texts of documents: contracts and requests from outside, reports of roles.

Works on the decoded document, so that JSON escapes hide nothing. Each text is scanned by itself. An inline input of a
publisher (a ``data:`` URI) is judged by its use: a patch by the diff gate, on the resulting objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from gatewright.contracts import codec, strict_json
from gatewright.contracts.vocabulary import Document
from gatewright.errors import Fault, MalformedError
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner

D = TypeVar("D", bound=Document)

_MARK = re.compile(rb"\[redacted:([A-Za-z0-9_.-]{1,128})\]")  # noqa: TID251 - linear: each try ends where the next one begins


class _Text(NamedTuple):
    pointer: str
    content: bytes


def check_document(document: Document, scanner: SecretScanner) -> None:
    """Raises MalformedError (``secret_found``) with the JSON pointer and the rule of each secret in ``document``."""
    faults = tuple(
        Fault(pointer, "secret_found", f"looks like a secret ({rule})")
        for pointer, rule in _places(document, scanner, inline=False)
    )
    if faults:
        where = ", ".join(dict.fromkeys(fault.pointer for fault in faults))
        raise MalformedError(
            f"the document would be kept as evidence, and holds secrets: {where}", faults=faults, code="secret_found"
        )


def redact_document(document: D, scanner: SecretScanner) -> tuple[D, tuple[str, ...]]:
    """Return ``document`` with its secrets replaced, and ``<pointer> <rule>`` of each; the same object if it has none.

    Raises MalformedError if the result is no valid document: the secret was in a field that only allows an id.
    """
    places = _places(document, scanner, inline=True)
    if not places:
        return document, ()
    value = _redact_value(msgspec.to_builtins(document), scanner)
    return codec.decode(msgspec.json.encode(value), type(document)), tuple(f"{pointer} {rule}" for pointer, rule in places)


def redact_message(data: bytes, scanner: SecretScanner) -> bytes:
    """Return ``data`` of any kind without its secrets: scanned as received, and for JSON also in its texts."""
    try:
        value = strict_json.parse(data)
    except MalformedError:
        return redact_output("message", data, scanner).data
    decoded = msgspec.json.encode(_redact_value(value, scanner))
    # Texts first: what was cut out of their escapes would leave no JSON.
    return redact_output("message", data if decoded == msgspec.json.encode(value) else decoded, scanner).data


def redacted_places(document: Document) -> tuple[tuple[str, str], ...]:
    """Pointer and rule of each mark that redaction left in ``document``."""
    found = ((text.pointer, _MARK.findall(text.content)) for text in _texts(msgspec.to_builtins(document), ""))
    return tuple((pointer, rule.decode()) for pointer, rules in found for rule in rules)


def _places(document: Document, scanner: SecretScanner, *, inline: bool) -> tuple[tuple[str, str], ...]:
    """``inline``: with what artifacts hold in their URIs."""
    value = msgspec.to_builtins(document)
    # Nearly every document is clean: one scan of everything shows it.
    if not scanner.find(b"\n".join(_document_texts(value, inline=inline))):
        return ()
    texts = [
        text
        for text in _texts(value, "")
        if inline or not _is_inline(text.pointer.rpartition("/")[2], text.content.decode("utf-8", "surrogatepass"))
    ]
    return tuple((text.pointer, hit.rule) for text in texts for hit in scanner.find(text.content))


def _is_inline(key: str, item: object) -> bool:
    """Return whether a field is a URI that contains an artifact."""
    return key == "uri" and isinstance(item, str) and item.startswith("data:")


def _document_texts(value: Any, *, inline: bool) -> list[bytes]:
    """Return the texts of ``_texts`` without their places."""
    found: list[bytes] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            found.append(each.encode("utf-8", "surrogatepass"))
        elif isinstance(each, dict):
            waiting += reversed([item for key, item in each.items() if inline or not _is_inline(key, item)])
        elif isinstance(each, list | tuple):
            waiting += reversed(each)
    return found


def _texts(value: Any, pointer: str) -> Iterator[_Text]:
    if isinstance(value, str):
        yield _Text(pointer, value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{pointer}/{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{number}")


def _redact_value(value: Any, scanner: SecretScanner) -> Any:
    if isinstance(value, str):
        return redact_words(value, scanner)
    if isinstance(value, dict):
        return {redact_words(key, scanner): _redact_value(item, scanner) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(item, scanner) for item in value]
    return value


def redact_words(text: str, scanner: SecretScanner) -> str:
    """``text`` with its secrets replaced."""
    data = text.encode("utf-8", "surrogatepass")
    parts, done = [], 0
    for hit in scanner.find(data):
        parts += [data[done : hit.start], f"[redacted:{hit.rule}]".encode()]
        done = hit.end
    return b"".join([*parts, data[done:]]).decode("utf-8", "replace")
