"""What is written beside files of a run that were published: their class, where they went, and what an operator excepted."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.records import FileRecord
from gatewright.contracts.vocabulary import Count, Document, NonEmpty, RunId, Sha256, Timestamp

Classification = Literal["public", "internal", "restricted"]


class ArtifactMeta(Document):
    """Stands beside a published file: its class, its origin and its digest (CHORUS, rule S)."""

    run_id: RunId
    manifest_sha256: Sha256
    """SHA-256 of the manifest of the sealed bundle that the file is from."""
    name: NonEmpty
    """Path in the bundle, or the name of what was made from the bundle."""
    sha256: Sha256
    size: Count
    """Bytes."""
    media_type: NonEmpty
    """Media type, as in RFC 6838."""
    classification: Classification
    """Who may see it."""
    basis: NonEmpty
    """What the class rests on."""
    scanner: NonEmpty
    """The scanner that looked for secrets."""
    findings: Count
    """Number of probable secrets."""
    redactions: Count
    """Number of places from which a secret was removed before the file was stored."""
    pii: bool | None = None
    """Whether it holds personal data; null: not examined."""


class Publication(Document):
    """A signed record of what was published of one run in one sink."""

    run_id: RunId
    manifest_sha256: Sha256
    """SHA-256 of the manifest of the sealed bundle. It fixes every file of the bundle."""
    sink: NonEmpty
    """Name of the sink in the policy."""
    address: NonEmpty
    """Where the sink keeps the objects."""
    objects: tuple[FileRecord, ...]
    """Every object, by its path in the sink, as it was read back."""
    published_at: Timestamp
    """When the last object was read back."""
    key_id: Sha256
    """Id of the key that signed the objects and this record."""
    exceptions: tuple[Sha256, ...] = ()
    """SHA-256 of each exception that was needed."""


class PolicyException(Document):
    """An operator's signed permission to use one sink in a weaker way, until it expires."""

    rule: Literal["sink_without_tls", "sink_private_address"]
    """The rule that does not apply."""
    sink: NonEmpty
    """Name of the sink in the policy."""
    reason: NonEmpty
    """The reason."""
    owner: NonEmpty
    """The person who is responsible for it."""
    expires_at: Timestamp
    """When the rule applies again."""
