"""A prompt as sent: system and order, the marker that links an answer to it, and the digests for the bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gatewright.prompts.library import SystemPrompt, digest

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
