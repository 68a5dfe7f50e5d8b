"""GitLab: its REST API, version 4.

Differences that a reader of the forge sees: a check that could not be judged is *canceled*, as GitLab has no state for errors.
Lines of a text that start with a slash get a space before it: GitLab would execute them as quick actions (``/merge``).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from gatewright.app.forge.port import ChangeRequest, Check, CheckState, Comment, ForgeUnavailableError, RequestState
from gatewright.app.forge.rest import Account, RestForge, Subject
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.contracts.queue_receipt import Blob
from gatewright.errors import DeniedError
from gatewright.foreign_documents import read_json
from gatewright.git.modes import canonical
from gatewright.git.refs import object_id, write_tree

#: Access level of a developer, the lowest that may push.
_DEVELOPER: Final = 30
_REQUEST_STATES: Final[Mapping[str, RequestState]] = {"opened": "open", "locked": "open", "merged": "merged"}
_STATES: Final = {
    CheckState.PENDING: "pending",
    CheckState.SUCCESS: "success",
    CheckState.FAILURE: "failed",
    CheckState.ERROR: "canceled",
}
_ENDED: Final = {name: state for state, name in _STATES.items()} | {"skipped": CheckState.ERROR}
#: A text and its shifted form correspond one to one.
_SLASH_LINE: Final = re.compile("^( *)/", re.MULTILINE)  # noqa: TID251 - linear: one repetition
_SHIFTED_LINE: Final = re.compile("^ ( *)/", re.MULTILINE)  # noqa: TID251 - linear: one repetition


class _User(msgspec.Struct, frozen=True):
    id: int
    username: str


class _Request(msgspec.Struct, frozen=True):
    iid: int
    state: str
    title: str
    source_branch: str
    target_branch: str
    source_project_id: int | None
    target_project_id: int
    sha: str | None = None
    description: str | None = None
    author: _User | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None


class _Status(msgspec.Struct, frozen=True):
    id: int
    name: str
    status: str
    description: str | None = None
    target_url: str | None = None


class _Note(msgspec.Struct, frozen=True):
    id: int
    body: str
    author: Account
    system: bool = False


class _Member(msgspec.Struct, frozen=True):
    access_level: int
    state: str = "active"


class _Entry(msgspec.Struct, frozen=True):
    id: str
    name: str
    mode: str


class _Attributes(msgspec.Struct, frozen=True):
    iid: int | None = None


class _Project(msgspec.Struct, frozen=True):
    path_with_namespace: str = ""


class _Event(msgspec.Struct, frozen=True):
    object_kind: str = ""
    project: _Project = _Project()
    object_attributes: _Attributes = _Attributes()
    merge_request: _Attributes | None = None


def request_headers(token: str) -> dict[str, str]:
    """Return the headers of each call."""
    return {"PRIVATE-TOKEN": token, "Accept": "application/json"}


class GitLabForge(RestForge):
    """One project on GitLab."""

    kind: ForgeKind = "gitlab"
    #: The first is equal when GitLab repeats a delivery.
    delivery_headers: ClassVar[Sequence[str]] = ("idempotency-key", "x-gitlab-event-uuid")
    event_headers: ClassVar[Sequence[str]] = ("x-gitlab-event",)

    @property
    def _project_path(self) -> tuple[str, str]:
        return ("projects", self._project)

    async def request(self, number: int) -> ChangeRequest | None:
        """Return a change request; None if there is none with this number."""
        found = await self._http.find(_Request, *self._project_path, "merge_requests", number)
        return None if found is None else _change_request(found)

    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None:
        """Return the newest change request from a branch of this project to ``base``, in any state."""
        filters = {"source_branch": head_branch, "target_branch": base, "order_by": "created_at", "sort": "desc"}
        async for request in self._requests(state="all", **filters):
            if (request.head_branch, request.base, request.fork) == (head_branch, base, False):
                return request
        return None

    async def open_requests(self) -> AsyncIterator[ChangeRequest]:
        """Return all open change requests, page by page."""
        async for request in self._requests(state="opened"):
            yield request

    async def set_check(self, name: str, check: Check) -> None:
        """Set the check ``name`` on a commit. Repeating the call changes nothing that a reader sees.

        GitLab refuses a state that the check has already.
        """
        body = {"state": _STATES[check.state], "name": name, "description": check.summary}
        link = {"target_url": check.link} if check.link else {}
        try:
            await self._http.perform("POST", *self._project_path, "statuses", check.commit, body=body | link)
        except DeniedError as error:
            shown = (await self.checks(check.commit)).get(name) if error.reason == "forge_refused" else None
            if shown is None or shown.state != check.state:
                raise

    async def add_comment(self, number: int, body: str) -> Comment:
        """Add a comment to a change request."""
        path = (*self._project_path, "merge_requests", number, "notes")
        note = await self._http.send("POST", _Note, *path, body={"body": _shift_slashes(body)})
        return Comment(note.id, _restore_slashes(note.body))

    async def edit_comment(self, number: int, comment_id: int, body: str) -> None:
        """Replace the text of a comment."""
        path = (*self._project_path, "merge_requests", number, "notes", comment_id)
        await self._http.perform("PUT", *path, body={"body": _shift_slashes(body)})

    async def may_write(self, login: str) -> bool:
        """Return whether an account may push to the project."""
        users = await self._http.get(list[_User], "users", username=login)
        user = next((user for user in users if user.username.casefold() == login.casefold()), None)
        if user is None:
            return False
        member = await self._http.find(_Member, *self._project_path, "members", "all", user.id)
        return member is not None and member.access_level >= _DEVELOPER and member.state == "active"

    async def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit, computed from its entries: GitLab does not name it."""
        entries: dict[bytes, Blob] = {}
        try:
            async for page in self._http.pages(list[_Entry], *self._project_path, "repository", "tree", ref=commit):
                entries |= {
                    entry.name.encode(): Blob(mode=canonical(entry.mode.encode()), object_id=entry.id) for entry in page
                }
            return object_id("tree", write_tree(entries), len(commit))
        except ValueError as error:
            raise ForgeUnavailableError(f"the forge lists a tree that cannot be read: {error}") from error

    async def _requests(self, **filters: str) -> AsyncIterator[ChangeRequest]:
        async for page in self._http.pages(list[_Request], *self._project_path, "merge_requests", **filters):
            for found in page:
                if (request := _change_request(found)) is not None:
                    yield request

    async def _create_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest:
        content = {"source_branch": head_branch, "target_branch": base, "title": title, "description": _shift_slashes(body)}
        created = await self._http.send("POST", _Request, *self._project_path, "merge_requests", body=content)
        return _change_request(created) or await self._existing(created.iid)

    async def _close_request(self, number: int) -> None:
        await self._http.perform("PUT", *self._project_path, "merge_requests", number, body={"state_event": "close"})

    async def _merge_request(self, number: int, head: str) -> str | None:
        path = (*self._project_path, "merge_requests", number, "merge")
        merged = _change_request(await self._http.send("PUT", _Request, *path, body={"sha": head}))
        return None if merged is None else merged.merge_commit

    async def _comments(self, number: int) -> AsyncIterator[tuple[int, Comment]]:
        path = (*self._project_path, "merge_requests", number, "notes")
        async for page in self._http.pages(list[_Note], *path, order_by="created_at", sort="asc"):
            for note in page:
                if not note.system:
                    yield note.author.id, Comment(note.id, _restore_slashes(note.body))

    async def _statuses(self, commit: str) -> AsyncIterator[tuple[int, str, Check]]:
        async for page in self._http.pages(list[_Status], *self._project_path, "repository", "commits", commit, "statuses"):
            for status in page:
                state = _ENDED.get(status.status, CheckState.PENDING)
                yield status.id, status.name, Check(commit, state, status.description or "", status.target_url or "")

    def _is_genuine(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> bool:  # noqa: ARG002 - others sign it
        """Return whether the secret itself was sent. It does not protect the body: a webhook is only a hint."""
        return hmac.compare_digest(headers.get("x-gitlab-token", "").encode("latin-1", "backslashreplace"), secret)

    def _delivery_subject(self, body: bytes) -> Subject:
        event = read_json(body, _Event)
        is_request = event.object_kind == "merge_request"
        about = event.object_attributes if is_request else event.merge_request
        return Subject(event.project.path_with_namespace, about.iid if about is not None else None)


def _shift_slashes(text: str) -> str:
    return _SLASH_LINE.sub(r" \1/", text)


def _restore_slashes(text: str) -> str:
    return _SHIFTED_LINE.sub(r"\1/", text)


def _change_request(found: _Request) -> ChangeRequest | None:
    """Return None for a merge request without a commit: it offers nothing."""
    if not found.sha:
        return None
    state = _REQUEST_STATES.get(found.state, "closed")
    return ChangeRequest(
        number=found.iid,
        head=found.sha,
        head_branch=found.source_branch,
        head_ref=f"refs/merge-requests/{found.iid}/head",
        base=found.target_branch,
        author=found.author.username if found.author is not None else "",
        fork=found.source_project_id != found.target_project_id,
        state=state,
        title=found.title,
        body=found.description or "",
        # A fast-forward merge makes no commit of its own.
        merge_commit=(found.merge_commit_sha or found.squash_commit_sha or found.sha) if state == "merged" else None,
    )
