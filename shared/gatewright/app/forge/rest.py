"""What all forges have in common: repeatable calls, the search for a comment, and the check of a webhook."""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from gatewright.app.forge.http import ForgeHttp
from gatewright.app.forge.port import ChangeRequest, Check, Comment, Delivery, ForgeUnavailableError
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import DeniedError, MalformedError
from gatewright.foreign_documents import UnreadableDocumentError

#: Bytes of a webhook. Forges send less.
MOST_DELIVERY_BYTES: Final = 1 << 20
#: Characters of a delivery's id and of its event's name.
_MOST_ID: Final = 200


class Account(msgspec.Struct, frozen=True):
    """The account of a token, or the author of a comment. A login may change, the id does not."""

    id: int


class Subject(NamedTuple):
    """What a webhook is about: the full name of a project, and the number of a change request if it is about one."""

    project: str
    number: int | None


class RestForge(ABC):
    """The part of ``port.Forge`` that does not depend on the forge."""

    kind: ForgeKind
    #: Names of the headers in lower case, the preferred ones first.
    delivery_headers: ClassVar[Sequence[str]]
    event_headers: ClassVar[Sequence[str]]

    def __init__(self, http: ForgeHttp, project: str) -> None:
        """``project``: full name (``owner/name``)."""
        self._http = http
        self._project = project
        self._account_id: int | None = None

    @abstractmethod
    async def request(self, number: int) -> ChangeRequest | None: ...
    @abstractmethod
    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None: ...
    @abstractmethod
    async def _create_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest: ...
    @abstractmethod
    async def _close_request(self, number: int) -> None: ...
    @abstractmethod
    async def _merge_request(self, number: int, head: str) -> str | None:
        """Merge and return the commit, None if the answer does not name it."""

    @abstractmethod
    def _comments(self, number: int) -> AsyncIterator[tuple[int, Comment]]:
        """Yield all comments, each with the id of its author."""

    @abstractmethod
    def _statuses(self, commit: str) -> AsyncIterator[tuple[int, str, Check]]:
        """Yield all checks of a commit, each with an ascending id and its name."""

    @abstractmethod
    def _is_genuine(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> bool:
        """Return whether a webhook carries a good signature, or else the secret."""

    @abstractmethod
    def _delivery_subject(self, body: bytes) -> Subject:
        """Return what a webhook is about. Raises UnreadableDocumentError."""

    async def open_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest:
        """Open a change request. One that exists already is returned as it is."""
        try:
            return await self._create_request(head_branch, base, title, body)
        except DeniedError as error:
            existing = await self.request_from(head_branch, base) if error.reason == "forge_refused" else None
            if existing is None or existing.state != "open":
                raise
            return existing

    async def close_request(self, number: int) -> None:
        """Close a change request without merging it. Repeating the call changes nothing."""
        if (await self._existing(number)).state == "open":
            await self._close_request(number)

    async def merge(self, number: int, head: str) -> str:
        """Merge a change request whose head is still ``head``; return the commit on the target branch.

        A refused merge is looked at again: an earlier call may have merged the request, or its head may have moved.
        """
        refusal: DeniedError | None = None
        try:
            if commit := await self._merge_request(number, head):
                return commit
        except DeniedError as error:
            if error.reason != "forge_refused":
                raise
            refusal = error
        request = await self._existing(number)
        if request.head != head:
            words = f"request {number} offers {request.head}, not {head}: it is not merged by this call"
            raise DeniedError(words, code="head_moved") from refusal
        if request.state == "merged" and request.merge_commit is not None:
            return request.merge_commit
        raise refusal or ForgeUnavailableError(f"the forge has not finished the merge of request {number}")

    async def checks(self, commit: str) -> Mapping[str, Check]:
        """Return the newest check of each name on ``commit``, by this account or others."""
        newest: dict[str, tuple[int, Check]] = {}
        async for order, name, check in self._statuses(commit):
            if name not in newest or order > newest[name][0]:
                newest[name] = order, check
        return {name: check for name, (_, check) in newest.items()}

    async def comment(self, number: int, marker: str) -> Comment | None:
        """Return the oldest comment of this account that contains ``marker``."""
        if self._account_id is None:
            self._account_id = (await self._http.get(Account, "user")).id
        own = [comment async for author, comment in self._comments(number) if author == self._account_id]
        return min((one for one in own if marker in one.body), key=lambda one: one.comment_id, default=None)

    def delivery(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> Delivery:
        """Verify and parse a webhook.

        1. Its size is bounded. 2. Its signature or secret is good; an empty secret proves nothing. 3. Its names are plain, and
        its body can be read. 4. A number of another project is left out: hooks of a whole organisation may share a secret.

        Raises DeniedError (``delivery_unsigned``), MalformedError (``delivery_malformed``).
        """
        # 1.
        if len(body) > MOST_DELIVERY_BYTES:
            raise _malformed(f"the webhook has more than {MOST_DELIVERY_BYTES} bytes")
        # 2.
        if not secret or not self._is_genuine(headers, body, secret):
            words = "the webhook is not signed with the secret of this project: set the same secret at the forge and here"
            raise DeniedError(words, code="delivery_unsigned")
        # 3.
        delivery_id, event = (_plain_header(headers, names) for names in (self.delivery_headers, self.event_headers))
        try:
            subject = self._delivery_subject(body)
        except UnreadableDocumentError as error:
            raise _malformed(f"the webhook's body cannot be read, have the forge send JSON: {error}") from error
        # 4.
        is_own = subject.project.casefold() == self._project.casefold()
        return Delivery(delivery_id, event, subject.number if is_own else None)

    async def _existing(self, number: int) -> ChangeRequest:
        request = await self.request(number)
        if request is None:
            raise DeniedError(f"the forge has no request {number}", code="forge_refused")
        return request


def is_hmac_of(given: str, body: bytes, secret: bytes) -> bool:
    """Return whether ``given`` is the HMAC-SHA256 of a body in hexadecimal digits, in constant time."""
    return hmac.compare_digest(given.encode(errors="backslashreplace"), hmac.digest(secret, body, "sha256").hex().encode())


def _plain_header(headers: Mapping[str, str], names: Sequence[str]) -> str:
    value = next((headers[name] for name in names if name in headers), "")
    if not value or len(value) > _MOST_ID or not value.isascii() or not value.isprintable():
        raise _malformed(f"the webhook has no usable header {names[0]}")
    return value


def _malformed(words: str) -> MalformedError:
    return MalformedError(words, code="delivery_malformed")
