"""Which addresses of the permitted hosts an installer may read in one pull."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from gatewright.egress.policy import EgressSource


class AllowedAddresses(Protocol):
    """The addresses of one pull, in canonical form."""

    def refusal(self, url: str) -> str:
        """Return why the address is refused; empty if it is allowed."""

    def reads(self, url: str) -> bool:
        """Return whether the answer names further addresses: ``learn`` then receives it before the client does."""

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        """Read the addresses that an answer names."""


class AnyAddress:
    """Whatever the hosts of the policy have."""

    def refusal(self, url: str) -> str:  # noqa: ARG002 - the protocol's
        return ""

    def reads(self, url: str) -> bool:  # noqa: ARG002 - the protocol's
        return False

    def learn(self, url: str, media_type: str, content: bytes) -> None:
        raise NotImplementedError


class ExactAddresses:
    """The given addresses only, for example those that a lock file names."""

    def __init__(self, urls: Collection[str]) -> None:
        raise NotImplementedError


class IndexedAddresses:
    """Index pages of the sources, and the files that an index page of this pull names.

    Args:
        sources: the registries; a source's ``ecosystem`` names its protocol.
        names: the packages that may be asked for; None: any. Go modules are ``module@version``.
    """

    def __init__(self, sources: tuple[EgressSource, ...], names: Collection[str] | None = None) -> None:
        raise NotImplementedError
