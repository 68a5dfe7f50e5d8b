"""A prompt as sent: system and order, the marker that links an answer to it, and the digests for the bundle."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from gatewright.prompts.library import SystemPrompt, digest

#: Hexadecimal digits of a mark.
_MARK = 32


@dataclass(frozen=True, slots=True)
class Prompt:
    """``directive`` is the marker that the answer must repeat, empty where no answer does. ``digests``: name -> sha256."""

    system: str
    order: str
    directive: str
    digests: Mapping[str, str]

    @property
    def in_one(self) -> str:
        """System prompt and order as one text, for who takes no system prompt."""
        return f"{self.system}\n{self.order}"

    def encode(self) -> bytes:
        """Exactly what is sent, as the bundle keeps it."""
        return msgspec.json.encode({"system": self.system, "user": self.order})


def make_prompt(system: SystemPrompt, body: str) -> Prompt:
    """Return ``body`` with a marker of its own: a digest of the whole prompt, so that no older answer can carry it."""
    mark = hashlib.sha256(f"{system.text}\0{body}".encode()).hexdigest()[:_MARK]
    directive = f"directive-{mark}"
    order = f"directive_ack: {directive}\n\n{body.strip()}\n"
    digests = {**system.digests, "system": digest(system.text), "order": digest(order)}
    return Prompt(system.text, order, directive, digests)


def make_order(system: SystemPrompt, body: str) -> Prompt:
    """Return ``body`` for a receiver whose answer is not a document: without a marker."""
    order = f"{body.strip()}\n"
    digests = {**system.digests, "system": digest(system.text), "order": digest(order)}
    return Prompt(system.text, order, "", digests)


# Text of strangers as data: behind a fence with its own content's digest, so that no text can contain its own end.
# Invisible text (controls, direction marks, invisible letters) is spelled out, so that it hides no instruction.

#: Maximum characters of one block; the block states that the rest is left out.
MAX_CHARACTERS = 64_000
#: Invisible categories: controls, formats, surrogates, private use, unassigned, line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN = frozenset("\n\t")


#: How the reader may use a block: as information, or as rules within the bounds that the order states.
Kind = Literal["DATA", "CONVENTIONS"]


def fence_text(name: str, text: str | bytes, *, limit: int = MAX_CHARACTERS, kind: Kind = "DATA") -> str:
    """Return ``text`` as a labelled block of data. ``name`` describes it, a path for instance; it is untrusted too."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    cut = len(whole) > limit
    shown = visible(whole[:limit])
    label = json.dumps(visible(name[:500]).replace("\n", " "), ensure_ascii=False)
    mark = _mark(label, shown)
    note = f"\n[left out: {len(whole) - limit} more characters]" if cut else ""
    return f"<<<{kind} {mark} name={label}>>>\n{shown}{'' if shown.endswith(chr(10)) else chr(10)}<<<END {kind} {mark}>>>{note}"


def visible(text: str) -> str:
    """Return ``text`` with everything invisible written as an escape; line ends and tabs stay."""
    plain = text.replace("\r\n", "\n")
    if plain.isascii() and plain.replace("\n", "").replace("\t", "").isprintable():
        return plain
    return "".join(
        each if each in _PLAIN or unicodedata.category(each) not in _UNSEEN else f"\\u{{{ord(each):x}}}" for each in plain
    )


def _mark(label: str, shown: str) -> str:
    """Return a mark derived from the content: to contain its own mark, a text would need its own digest."""
    salt = 0
    while True:
        mark = hashlib.sha256(f"{salt}\0{label}\0{shown}".encode()).hexdigest()[:_MARK]
        if mark not in shown and mark not in label:
            return mark
        salt += 1
