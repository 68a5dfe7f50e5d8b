"""What of a run goes to the providers of models: the manifest of a transfer, and the leave for it that a task is given.

The gatekeeper makes the manifest before work is given out, from its own mirror and the operator's policies; no role and no
model has a say in it. A leave repeats of it what the gateway of a task holds calls against.
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
    """Where it goes. ``endpoint`` is ``SCHEME://HOST:PORT``, ``model`` the name that the provider knows."""

    provider: NonEmpty
    endpoint: NonEmpty
    model: NonEmpty
    internal: bool = False


class TransferSource(Document):
    """What may go: a tree of the repository with all its files, or a document. ``digest`` is a git id, or a sha256."""

    kind: Literal["tree", "document"]
    name: NonEmpty
    digest: NonEmpty
    bytes: Count


_Destinations = Annotated[tuple[TransferDestination, ...], Meta(min_length=1, max_length=128)]


class TransferManifest(Document):
    """One for each role of a run that may ask models. ``bytes`` is the size of all sources, ``most_bytes`` what one task may
    send in all its deliveries. ``later`` are documents that the run makes itself once work is given out, by the beginning of
    their names: their digests stand in the contracts of the tasks. ``secrets`` counts places, ``unscanned_bytes`` what was not
    looked at for them. ``preview``: some of the paths, no contents."""

    run_id: RunId
    role: TransferRole
    purpose: NonEmpty
    destinations: _Destinations
    sources: Annotated[tuple[TransferSource, ...], Meta(min_length=1)]
    bytes: Count
    most_bytes: Count
    secrets: Count
    unscanned_bytes: Count
    protected: _Some
    low_risk_bytes: Count
    mode: TransferMode
    risk: TransferRisk
    phrase: _Line
    preview: _Some
    later: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()


#: Sources that a request names one by one.
MOST_SOURCES = 20


class AskedTransfer(Document):
    """What a person is asked to approve of one manifest, bounded: where it goes, what may go, and how much at most.

    ``destinations`` are those outside. ``most_bytes`` is the bound that the gateway holds every task to. ``more_sources``: how
    many sources are not named. ``preview``: some of the paths, no contents.
    """

    role: TransferRole
    purpose: NonEmpty
    manifest_sha256: Sha256
    destinations: _Destinations
    sources: Annotated[tuple[TransferSource, ...], Meta(min_length=1, max_length=MOST_SOURCES)]
    bytes: Count
    most_bytes: Count
    secrets: Count
    unscanned_bytes: Count
    protected: _Some
    risk: TransferRisk
    preview: _Some
    more_sources: Count = 0
    later: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()


class TransferLeave(Document):
    """What a task may send, by the approved manifest with this digest. Written by the gatekeeper alone."""

    run_id: RunId
    role: TransferRole
    manifest_sha256: Sha256
    destinations: _Destinations
    most_bytes: Count
