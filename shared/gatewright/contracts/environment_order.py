"""An order of environments by a host that has only the bus, and the puller's answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import Document, NonEmpty, Sha256

_Line = Annotated[str, Meta(min_length=1, max_length=4096)]


class OrderedFile(Document):
    """A file of the baseline that names packages."""

    path: _Line
    """Its path in the repository."""
    sha256: Sha256
    """SHA-256 of its content."""
    content: bytes
    """Its content in base64."""


class EnvironmentOrder(Document):
    """Asks for the environments that commands need on a baseline. The answer is an ``environment_result.v1``, or an
    ``error.v1``."""

    commands: Annotated[tuple[_Line, ...], Meta(max_length=100)]
    """The commands; their programs decide which languages are needed."""
    files: Annotated[tuple[OrderedFile, ...], Meta(max_length=20_000)]
    """The files of the baseline that decide which packages are installed."""
    names: Annotated[tuple[_Line, ...], Meta(max_length=50_000)] = ()
    """Further paths of the baseline that an installer must know of, without their content."""


class OrderedEnvironment(Document):
    """An environment, or a folder with a toolchain."""

    prefix: NonEmpty
    """Its path on the hosts of the roles."""
    ecosystem: Literal["python", "node", "rust", "go", "java"] | None = None
    """Its language; null for a toolchain."""
    record_sha256: Sha256 | None = None
    """SHA-256 of its record; null for a toolchain."""
    egress_sha256: Sha256 | None = None
    """SHA-256 of the last line of its log of requests; null without requests."""


class EnvironmentResult(Document):
    """State of an order of environments. The sender repeats the order until the state is READY."""

    order_sha256: Sha256
    """SHA-256 of the order as it was sent."""
    state: Literal["PREPARING", "READY"]
    """PREPARING: repeat the same order for its result. READY: the environments exist."""
    environments: Annotated[tuple[OrderedEnvironment, ...], Meta(max_length=32)] = ()
    """The environments, in the order of their programs on the path."""
    notes: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Progress so far, for people."""
