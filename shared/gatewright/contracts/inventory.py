"""What an environment was made of: its packages, and the files that no package accounts for."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import END, Count, Document, Sha256

#: Packages of one environment, and files that one list names.
MOST_PACKAGES = 20_000
MOST_NAMED = 100
Ecosystem = Literal["python", "node", "rust", "go", "java", "other"]
#: One printable line: names come from foreign packages.
Line = Annotated[str, Meta(max_length=400)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=MOST_NAMED)]


class InventoryPackage(Document):
    name: Annotated[Line, Meta(min_length=1)]
    """Its own name."""
    version: Line
    """Its own version."""
    purl: Line
    """Package URL."""
    licence: Line | None = None
    """Licence as declared, an SPDX expression if the package has one; left out: not measured."""
    content_sha256: Sha256 | None = None
    """SHA-256 over the sorted names and digests of its files; left out: not measured."""
    archive: Annotated[str, Meta(pattern=rf"^(sha(1|256|384|512):[0-9a-f]+|h1:[0-9a-f]+){END}")] | None = None
    """Algorithm and hex digest of its archive by the lock; h1 is the module hash of Go."""
    source: Line | None = None
    """Host that it came from; left out: unknown."""
    direct: bool | None = None
    """Whether it was requested itself; left out: unknown."""


class PullFacts(Document):
    """What the installer of an environment read from registries."""

    requests: Count
    """Number of requests."""
    refused: Count
    """Number of requests that the egress gateway refused."""
    bytes: Count
    """Bytes of content that the installer received."""
    log_sha256: Sha256
    """Digest of the egress log."""


class InventoryTree(Document):
    ecosystem: Ecosystem
    """Decides which packages were read."""
    version: Line
    """Version of its interpreter; empty: unknown."""
    packages: Annotated[tuple[InventoryPackage, ...], Meta(max_length=MOST_PACKAGES)]
    """Sorted by package URL."""
    unknown_files: Count
    """Number of files, or of packages of Node, that no record lists."""
    unknown: Lines
    """The first of them."""
    altered_files: Count
    """Number of files, or of modules of Go, that are missing or differ from their record."""
    altered: Lines
    """The first of them."""
    faults: Lines
    """Why something was not measured."""
    pull: PullFacts | None = None
    """The requests by which the environment was made; left out: not recorded."""


class EnvironmentInventory(Document):
    """The packages and unexplained files that commands saw besides the system."""

    trees: Annotated[tuple[InventoryTree, ...], Meta(min_length=1, max_length=64)]
    """Environments in the order of the command."""
