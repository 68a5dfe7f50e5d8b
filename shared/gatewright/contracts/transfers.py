"""Data of a run for model providers: the manifest of a transfer, and the permission for it in a task.

The gatekeeper builds the manifest before work is dispatched, from its own mirror and the operator's policies; no role and no
model can influence it. The permission repeats the parts that the gateway of a task enforces.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, RunId, Sha256

TransferRole = Literal["worker", "reviewer"]
TransferRisk = Literal["low", "medium", "high"]
TransferMode = Literal["manual", "auto_low_risk"]
_Line = Annotated[str, Meta(max_length=200)]
_Some = Annotated[tuple[_Line, ...], Meta(max_length=20)]


class TransferDestination(Document):
    """A model of a provider that bytes may be sent to."""

    provider: NonEmpty
    """Name of the provider in models.json."""
    endpoint: NonEmpty
    """SCHEME://HOST:PORT, and the proxy in between."""
    model: NonEmpty
    """The model's name at the provider."""
    internal: bool = False
    """Whether the operator runs it; no approval is needed then."""


class TransferSource(Document):
    """What may be sent: a tree of the repository with all its files, or a document."""

    kind: Literal["tree", "document"]
    """Kind of the source: a document, or a tree with all its files."""
    name: NonEmpty
    """Name of the source."""
    digest: NonEmpty
    """A sha256, or the git id of a tree."""
    bytes: Count
    """Size in bytes."""


_Destinations = Annotated[tuple[TransferDestination, ...], Meta(min_length=1, max_length=128)]


class TransferManifest(Document):
    """What tasks of one role of a run may send to providers of models. The gatekeeper makes it before it gives out work."""

    run_id: RunId
    role: TransferRole
    """The role whose tasks may send."""
    purpose: NonEmpty
    """Purpose of the transfer."""
    destinations: _Destinations
    """Where it may be sent."""
    sources: Annotated[tuple[TransferSource, ...], Meta(min_length=1)]
    """What may be sent, or what is sent is made from."""
    bytes: Count
    """Size of all sources together, in bytes."""
    most_bytes: Count
    """Bytes that one task may send in all, over all its deliveries."""
    secrets: Count
    """Number of places that look like secrets."""
    unscanned_bytes: Count
    """Number of bytes that were not scanned for secrets."""
    protected: _Some
    """Protected classes of files that the contract lets the task change."""
    low_risk_bytes: Count
    """Sources with more bytes than this are not of low risk."""
    mode: TransferMode
    """What the policy lets pass without a person."""
    risk: TransferRisk
    """The risk, derived by rule from this manifest."""
    phrase: _Line
    """The exact phrase that an approval must contain; empty: none."""
    preview: _Some
    """Some of the paths, without contents."""
    later: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()
    """Documents that the run makes itself once work is given out, by name prefix. Their digests are in the contracts of the
    tasks."""


#: Sources that a request names one by one.
MOST_SOURCES = 20


class AskedTransfer(Document):
    """What a person is asked to approve of one manifest, bounded: where it goes, what may be sent, and how much at most."""

    role: TransferRole
    """The role whose tasks may send."""
    purpose: NonEmpty
    """Purpose of the transfer."""
    manifest_sha256: Sha256
    """Digest of the manifest that the gateway checks calls against."""
    destinations: _Destinations
    """Outside destinations: the providers, endpoints and models that will be asked."""
    sources: Annotated[tuple[TransferSource, ...], Meta(min_length=1, max_length=MOST_SOURCES)]
    """What may be sent, or what is sent is made from."""
    bytes: Count
    """Size of all sources together, in bytes."""
    most_bytes: Count
    """Bytes that one task may send in all, over all its deliveries."""
    secrets: Count
    """Number of places that look like secrets."""
    unscanned_bytes: Count
    """Number of bytes that were not scanned for secrets."""
    protected: _Some
    """Protected classes of files that the contract lets the task change."""
    risk: TransferRisk
    """The risk, derived by rule from this manifest."""
    preview: _Some
    """Some of the paths, without contents."""
    more_sources: Count = 0
    """Number of sources that are not listed."""
    later: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()
    """Documents that the run makes itself once work is given out, by name prefix. Their digests are in the contracts of the
    tasks."""


class TransferLeave(Document):
    """What a task may send, by the approved manifest with this digest. Written by the gatekeeper alone."""

    run_id: RunId
    role: TransferRole
    """The role whose tasks may send."""
    manifest_sha256: Sha256
    """Digest of the manifest's canonical JSON."""
    destinations: _Destinations
    """Where it may be sent."""
    most_bytes: Count
    """Bytes that the task may send in all."""
