"""Takes secrets out of the output of commands before it is stored, and keeps a record: which rule, where, how often.

The record never holds a value, nor anything made of one: a digest of a short password is the password.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gatewright.secrets.rules import RULES, is_fact
from gatewright.secrets.scanner import Hit, SecretScanner, disjoint
from gatewright.secrets.values import looks_random

#: The name of the artifact that holds a record.
REDACTIONS = "redactions"
#: Rules that look at words around a value, as far as output is concerned; a value must look generated, or the words of a
#: failed test (``assert token == 'abc'``) would be lost to the one who has to mend it.
_BY_CONTEXT = tuple(rule for rule in RULES if not rule.precise)


class Redaction(msgspec.Struct, frozen=True):
    """``count`` secrets of ``rule`` were taken out of ``place``; the first stood in line ``line`` (from 1)."""

    place: str
    rule: str
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """What may be stored, and what was done to it."""

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
    """The record as JSON, to be stored beside the outputs; empty when nothing was taken out."""
    return msgspec.json.encode(redactions) if redactions else b""


def _by_context(data: bytes) -> Iterator[Hit]:
    text = data.decode("latin-1")
    for rule in _BY_CONTEXT:
        for match in rule.pattern.finditer(text):
            kept = next((match.end(name) for name in ("name", "scheme") if name in match.groupdict()), match.start())
            value = text[kept : match.end()]
            named = "name" in match.groupdict()
            if looks_random(value.strip("\"'\\:/@")) and not (named and is_fact(match)):
                yield Hit(rule.name, kept, match.end())
