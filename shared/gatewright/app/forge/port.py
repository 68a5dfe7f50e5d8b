"""What Gatewright needs of a forge: requests, checks on commits, one comment for each request, and signed deliveries.

Adapters for GitHub, GitLab, and Gitea with Forgejo implement it. Requests are called pull requests by two of them and merge
requests by the third; here they are *change requests*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, Protocol

from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import UnavailableError

RequestState = Literal["open", "closed", "merged"]


class ForgeUnavailableError(UnavailableError):
    """The forge cannot be reached, is busy, or answers what its description does not allow. The call is repeated later."""

    code: ClassVar[str] = "forge_unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """``retry_after``: seconds that the forge asks to wait; None if it names no time."""
        super().__init__(message)
        self.retry_after = retry_after


class CheckState(StrEnum):
    """The state of a check. ``ERROR``: the change could not be judged."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change request as the forge shows it now.

    ``head``: id of the commit that it offers, ``head_branch`` its branch, ``head_ref`` the ref of the target repository from
    which it can be fetched (``refs/pull/7/head``). ``base``: name of the target branch. ``fork``: whether the head branch is in
    another repository. ``merge_commit``: the commit that merged it, None unless ``state`` is ``merged``.
    """

    number: int
    head: str
    head_branch: str
    head_ref: str
    base: str
    author: str
    fork: bool
    state: RequestState
    title: str
    body: str
    merge_commit: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The check of one commit under one name. ``summary``: at most 140 characters. ``link``: an address, or empty."""

    commit: str
    state: CheckState
    summary: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of this account on a change request."""

    comment_id: int
    body: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook whose signature is good: only a hint, since it may be old or repeated.

    ``delivery_id``: the forge's id, equal when the forge repeats the delivery. ``number``: the change request that it is
    about; None if it is about none.
    """

    delivery_id: str
    event: str
    number: int | None


class Forge(Protocol):
    """One project on a forge. Every method reads or writes the present state over HTTP.

    All raise ForgeUnavailableError, and DeniedError: ``forge_denied`` (the token may not), ``forge_refused`` (the forge refuses
    this call, with its words).
    """

    kind: ForgeKind

    async def request(self, number: int) -> ChangeRequest | None:
        """Return a change request; None if there is none with this number."""
        ...

    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None:
        """Return the newest change request from a branch of this project to ``base``, in any state."""
        ...

    def open_requests(self) -> AsyncIterator[ChangeRequest]:
        """Return all open change requests, page by page."""
        ...

    async def open_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest:
        """Open a change request. One that exists already is returned as it is."""
        ...

    async def close_request(self, number: int) -> None:
        """Close a change request without merging it. Repeating the call changes nothing."""
        ...

    async def checks(self, commit: str) -> Mapping[str, Check]:
        """Return the newest check of each name on ``commit``, by this account or others."""
        ...

    async def set_check(self, name: str, check: Check) -> None:
        """Set the check ``name`` on a commit. Repeating the call changes nothing that a reader sees."""
        ...

    async def comment(self, number: int, marker: str) -> Comment | None:
        """Return the oldest comment of this account that contains ``marker``."""
        ...

    async def add_comment(self, number: int, body: str) -> Comment:
        """Add a comment to a change request."""
        ...

    async def edit_comment(self, number: int, comment_id: int, body: str) -> None:
        """Replace the text of a comment."""
        ...

    async def may_write(self, login: str) -> bool:
        """Return whether an account may push to the project."""
        ...

    async def merge(self, number: int, head: str) -> str:
        """Merge a change request whose head is still ``head``; return the commit on the target branch.

        Raises DeniedError also with ``head_moved``.
        """
        ...

    async def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit."""
        ...

    def delivery(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> Delivery:
        """Verify and parse a webhook; the secret is compared in constant time.

        Args:
            headers: by names in lower case.
            body: as received.
            secret: the secret shared with the forge.

        Raises:
            DeniedError: ``delivery_unsigned``, the signature or token is missing or wrong.
            MalformedError: ``delivery_malformed``.
        """
        ...
