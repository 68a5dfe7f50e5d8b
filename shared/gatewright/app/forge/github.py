"""GitHub and GitHub Enterprise: its REST API, version 2022-11-28.

Checks are commit statuses: a token may set them, whereas check runs need an app.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from gatewright.app.forge.port import ChangeRequest, Check, CheckState, Comment
from gatewright.app.forge.rest import Account, RestForge, Subject, is_hmac_of
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.foreign_documents import read_json

_STATES: Final = {state.value: state for state in CheckState}


class _Id(msgspec.Struct, frozen=True):
    id: int


class _Login(msgspec.Struct, frozen=True):
    login: str


class _End(msgspec.Struct, frozen=True):
    """Head or base of a pull request. The repository is null when a fork was deleted."""

    ref: str
    sha: str
    repo: _Id | None = None


class Pull(msgspec.Struct, frozen=True):
    """A pull request as GitHub and Gitea describe it, alone or in a list."""

    number: int
    state: str
    title: str
    head: _End
    base: _End
    body: str | None = None
    user: _Login | None = None
    merged_at: str | None = None
    merge_commit_sha: str | None = None


class _Status(msgspec.Struct, frozen=True):
    """A commit status. Gitea calls its state ``status``."""

    id: int
    context: str
    state: str = ""
    status: str = ""
    description: str | None = None
    target_url: str | None = None


class _Note(msgspec.Struct, frozen=True):
    id: int
    body: str = ""
    user: Account | None = None


class _Permission(msgspec.Struct, frozen=True):
    permission: str


class _Merged(msgspec.Struct, frozen=True):
    sha: str
    merged: bool


class _Tree(msgspec.Struct, frozen=True):
    sha: str


class _Commit(msgspec.Struct, frozen=True):
    tree: _Tree


class _Project(msgspec.Struct, frozen=True):
    full_name: str = ""


class _Numbered(msgspec.Struct, frozen=True):
    number: int


class _Issue(msgspec.Struct, frozen=True):
    """``pull_request`` is present if the issue is a pull request."""

    number: int
    pull_request: dict[str, Any] | None = None


class _Event(msgspec.Struct, frozen=True):
    repository: _Project = _Project()
    pull_request: _Numbered | None = None
    issue: _Issue | None = None


def request_headers(token: str) -> dict[str, str]:
    """Return the headers of each call."""
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


class GitHubForge(RestForge):
    """One repository on GitHub."""

    kind: ForgeKind = "github"
    delivery_headers: ClassVar[Sequence[str]] = ("x-github-delivery",)
    event_headers: ClassVar[Sequence[str]] = ("x-github-event",)
    #: Permissions with which an account may push.
    writers: ClassVar[frozenset[str]] = frozenset({"admin", "write"})

    @property
    def _repository_path(self) -> tuple[str, ...]:
        return ("repos", *self._project.split("/"))

    async def request(self, number: int) -> ChangeRequest | None:
        """Return a change request; None if there is none with this number."""
        pull = await self._http.find(Pull, *self._repository_path, "pulls", number)
        return None if pull is None else _change_request(pull)

    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None:
        """Return the newest change request from a branch of this project to ``base``, in any state."""
        owner = self._project.split("/", 1)[0]
        filters = {"head": f"{owner}:{head_branch}", "base": base, "sort": "created", "direction": "desc"}
        return await self._newest(head_branch, base, filters)

    async def open_requests(self) -> AsyncIterator[ChangeRequest]:
        """Return all open change requests, page by page."""
        async for page in self._http.pages(list[Pull], *self._repository_path, "pulls", state="open"):
            for pull in page:
                if (request := _change_request(pull)) is not None:
                    yield request

    async def set_check(self, name: str, check: Check) -> None:
        """Set the check ``name`` on a commit. Repeating the call changes nothing that a reader sees."""
        body = {"state": check.state.value, "context": name, "description": check.summary}
        link = {"target_url": check.link} if check.link else {}
        await self._http.perform("POST", *self._repository_path, "statuses", check.commit, body=body | link)

    async def add_comment(self, number: int, body: str) -> Comment:
        """Add a comment to a change request."""
        note = await self._http.send("POST", _Note, *self._repository_path, "issues", number, "comments", body={"body": body})
        return Comment(note.id, note.body)

    async def edit_comment(self, number: int, comment_id: int, body: str) -> None:  # noqa: ARG002 - GitLab needs the number
        """Replace the text of a comment."""
        await self._http.perform("PATCH", *self._repository_path, "issues", "comments", comment_id, body={"body": body})

    async def may_write(self, login: str) -> bool:
        """Return whether an account may push to the project."""
        found = await self._http.find(_Permission, *self._repository_path, "collaborators", login, "permission")
        return found is not None and found.permission in self.writers

    async def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit."""
        return (await self._http.get(_Commit, *self._repository_path, "git", "commits", commit)).tree.sha

    async def _newest(self, head_branch: str, base: str, filters: Mapping[str, str]) -> ChangeRequest | None:
        """Return the first one of a list, newest first. The forge's filters are only a saving: each item is compared."""
        async for page in self._http.pages(list[Pull], *self._repository_path, "pulls", state="all", **filters):
            for request in map(_change_request, page):
                if request is not None and (request.head_branch, request.base, request.fork) == (head_branch, base, False):
                    return request
        return None

    async def _create_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest:
        content = {"head": head_branch, "base": base, "title": title, "body": body}
        pull = await self._http.send("POST", Pull, *self._repository_path, "pulls", body=content)
        return _change_request(pull) or await self._existing(pull.number)

    async def _close_request(self, number: int) -> None:
        await self._http.perform("PATCH", *self._repository_path, "pulls", number, body={"state": "closed"})

    async def _merge_request(self, number: int, head: str) -> str | None:
        merged = await self._http.send("PUT", _Merged, *self._repository_path, "pulls", number, "merge", body={"sha": head})
        return merged.sha if merged.merged else None

    async def _comments(self, number: int) -> AsyncIterator[tuple[int, Comment]]:
        async for page in self._http.pages(list[_Note], *self._repository_path, "issues", number, "comments"):
            for note in page:
                if note.user is not None:
                    yield note.user.id, Comment(note.id, note.body)

    async def _statuses(self, commit: str) -> AsyncIterator[tuple[int, str, Check]]:
        async for page in self._http.pages(list[_Status], *self._repository_path, "commits", commit, "statuses"):
            for status in page:
                state = _STATES.get(status.state or status.status, CheckState.ERROR)
                yield status.id, status.context, Check(commit, state, status.description or "", status.target_url or "")

    def _is_genuine(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> bool:
        scheme, _, digits = headers.get("x-hub-signature-256", "").partition("=")
        return scheme == "sha256" and is_hmac_of(digits, body, secret)

    def _delivery_subject(self, body: bytes) -> Subject:
        event = read_json(body, _Event)
        if event.pull_request is not None:
            number: int | None = event.pull_request.number
        else:
            number = event.issue.number if event.issue is not None and event.issue.pull_request else None
        return Subject(event.repository.full_name, number)


def _change_request(pull: Pull) -> ChangeRequest | None:
    """Return None for a pull request without a commit: it offers nothing."""
    if not pull.head.sha:
        return None
    merged = pull.merged_at is not None
    return ChangeRequest(
        number=pull.number,
        head=pull.head.sha,
        head_branch=pull.head.ref,
        head_ref=f"refs/pull/{pull.number}/head",
        base=pull.base.ref,
        author=pull.user.login if pull.user is not None else "",
        fork=pull.head.repo is None or pull.head.repo != pull.base.repo,
        state="merged" if merged else "open" if pull.state == "open" else "closed",
        title=pull.title,
        body=pull.body or "",
        merge_commit=pull.merge_commit_sha if merged else None,
    )
