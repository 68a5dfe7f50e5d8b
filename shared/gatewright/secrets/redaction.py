"""Removal of secrets from the output of commands before it is stored, with a record: rule, place, count.

The record never contains a value, nor anything derived from one: a digest of a short password reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.secrets.rules import RULES, is_fact
from gatewright.secrets.scanner import Hit, SecretScanner, disjoint
from gatewright.secrets.values import looks_random

#: The name of the artifact that holds a record.
REDACTIONS = "redactions"
#: Rules that use the words around a value, as applied to output; a value must look generated, or the message of a failed test
#: (``assert token == 'abc'``) would be lost to the person who must fix it.
_BY_CONTEXT = tuple(rule for rule in RULES if not rule.precise)


class Redaction(msgspec.Struct, frozen=True):
    """``count`` secrets of ``rule`` were removed from ``place``; the first was in line ``line`` (from 1)."""

    place: str
    rule: str
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """The data to store, and the redactions made."""

    data: bytes
    redactions: tuple[Redaction, ...]


def redact_output(place: str, data: bytes, scanner: SecretScanner) -> Redacted:
    """``data`` with each secret replaced by ``[redacted:<rule>]``; the same bytes when there is none.

    Runs long: use a thread. Raises what ``SecretScanner.find`` raises.
    """
    hits = disjoint([*scanner.find(data), *_by_context(data)])
    if not hits:
        return Redacted(data, ())
    parts, done, line = [], 0, 1
    counts: dict[str, tuple[int, int]] = {}
    for hit in hits:
        parts += [data[done : hit.start], f"[redacted:{hit.rule}]".encode()]
        line += data.count(b"\n", done, hit.start)
        count, first = counts.get(hit.rule, (0, line))
        line += data.count(b"\n", hit.start, hit.end)
        done = hit.end
        counts[hit.rule] = (count + 1, first)
    parts.append(data[done:])
    record = tuple(Redaction(place, rule, count, line) for rule, (count, line) in sorted(counts.items()))
    return Redacted(b"".join(parts), record)


def record_of(redactions: Sequence[Redaction]) -> bytes:
    """Return the record as JSON, to be stored beside the outputs; empty without redactions."""
    return msgspec.json.encode(redactions) if redactions else b""


def read_record(data: bytes) -> tuple[tuple[str, str], ...]:
    """Return place and rule of each redaction in a record; none of what is no record."""
    try:
        return tuple((each.place, each.rule) for each in read_json(data, list[Redaction]))
    except UnreadableDocumentError:
        return ()


def _by_context(data: bytes) -> Iterator[Hit]:
    text = data.decode("latin-1")
    for rule in _BY_CONTEXT:
        for match in rule.pattern.finditer(text):
            kept = next((match.end(name) for name in ("name", "scheme") if name in match.groupdict()), match.start())
            value = text[kept : match.end()]
            named = "name" in match.groupdict()
            if looks_random(value.strip("\"'\\:/@")) and not (named and is_fact(match)):
                yield Hit(rule.name, kept, match.end())
