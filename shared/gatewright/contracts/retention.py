"""What is written down about keeping bundles: who holds one, and what stands in the place of one that was removed."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, RunId, Sha256, Timestamp


class LegalHold(Document):
    """One act: a hold is placed on a run's bundle, or taken off. The last act about a run counts."""

    run_id: RunId
    act: Literal["place", "release"]
    reason: NonEmpty
    by: NonEmpty
    at: Timestamp


class Tombstone(Document):
    """Stands in the place of a bundle that was removed on purpose. ``manifest_sha256`` fixes what the bundle was."""

    run_id: RunId
    manifest_sha256: Sha256
    chain_head: Sha256
    chain_length: Count
    status: Literal["SUCCESS", "FAILED", "ABORTED"]
    finished_at: Timestamp
    pruned_at: Timestamp
    pruned_by: NonEmpty
    reason: NonEmpty
    #: Files of the bundle, and their bytes together, the manifest and its signature left out.
    files: Count
    size: Count
