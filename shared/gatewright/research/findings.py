"""The artifacts of a SEARCH task: the findings, the stored bytes and text of each source, and the log of requests."""

from __future__ import annotations

from typing import Final

from gatewright.contracts.reports import EvidenceSource

FINDINGS: Final = "evidence_bundle"
LOG: Final = "research_log"


def is_finding(name: str) -> bool:
    """Return whether an artifact of a result is the findings, or belongs to a source of them."""
    return name == FINDINGS or name.startswith(("source:", "text:"))


def content_name(source: EvidenceSource) -> str:
    """Return the name of the artifact with the bytes of a source."""
    return f"source:{source.name}"


def text_name(source: EvidenceSource) -> str:
    """Return the name of the artifact with its text."""
    return f"text:{source.name}"
