"""What is written down about keeping bundles: who holds one, and what stands in the place of one that was removed."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, RunId, Sha256, Timestamp


class LegalHold(Document):
    """One act about keeping a run's bundle: a hold is placed or released. The last act about a run counts."""

    run_id: RunId
    act: Literal["place", "release"]
    """The act."""
    reason: NonEmpty
    """The reason."""
    by: NonEmpty
    """Who placed or released the hold."""
    at: Timestamp
    """The time."""


class Tombstone(Document):
    """Stands, signed, in the place of a bundle that was removed on purpose."""

    run_id: RunId
    manifest_sha256: Sha256
    """SHA-256 of the manifest of the removed bundle. It fixes every file of the bundle."""
    chain_head: Sha256
    """Hash of the last event."""
    chain_length: Count
    """Number of events."""
    status: Literal["SUCCESS", "FAILED", "ABORTED"]
    """How the run ended."""
    finished_at: Timestamp
    """When the run ended."""
    pruned_at: Timestamp
    """When the bundle was removed."""
    pruned_by: NonEmpty
    """Who removed it."""
    reason: NonEmpty
    """The reason."""
    files: Count
    """Number of files that the manifest listed, without the manifest and its signature."""
    size: Count
    """Size of these files together, in bytes."""
