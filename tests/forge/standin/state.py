"""One model of a forge's project, which the three faces of the stand-in show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gatewright.contracts.queue_receipt import Blob
from gatewright.git.refs import object_id, write_tree

Level = Literal["read", "write", "admin"]
#: A file of every tree that nothing else is known of.
_README = {b"README.md": Blob(mode="100644", object_id="e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")}


class RefusalError(Exception):
    """The forge refuses a call."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Request:
    """A change request. ``fork``: whether its head branch is in another repository, which ``fork_deleted`` says is gone."""

    number: int
    head_branch: str
    head: str
    base: str
    author: str
    title: str
    body: str
    fork: bool = False
    fork_deleted: bool = False
    state: Literal["open", "closed", "merged"] = "open"
    merge_commit: str | None = None


@dataclass(frozen=True)
class Status:
    """A check as one face names its states."""

    status_id: int
    commit: str
    name: str
    state: str
    summary: str
    link: str


@dataclass
class Note:
    note_id: int
    number: int
    author: str
    body: str


@dataclass
class ForgeState:
    """``accounts``: ids by login; ``login``: the account of the token; ``levels``: members by login."""

    project: str = "acme/shop"
    login: str = "gatewright-bot"
    accounts: dict[str, int] = field(default_factory=lambda: {"gatewright-bot": 1, "ana": 2, "ben": 3, "eve": 4})
    levels: dict[str, Level] = field(default_factory=lambda: {"gatewright-bot": "write", "ana": "admin", "ben": "read"})
    branches: dict[str, str] = field(default_factory=lambda: {"main": commit_id("main")})
    requests: dict[int, Request] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    trees: dict[str, Mapping[bytes, Blob]] = field(default_factory=dict)

    # --- what people do at the forge ---------------------------------------------------------------------------------------

    def push(self, branch: str, commit: str, tree: Mapping[bytes, Blob] | None = None) -> None:
        """Move a branch of the project, and the heads of open requests from it."""
        self.branches[branch] = commit
        self.trees[commit] = _README if tree is None else tree
        for request in self.requests.values():
            if request.state == "open" and not request.fork and request.head_branch == branch:
                request.head = commit

    def move_head(self, number: int, commit: str) -> None:
        """Push to the head of a request, also in a fork."""
        request = self.requests[number]
        self.trees[commit] = _README
        if request.fork:
            request.head = commit
        else:
            self.push(request.head_branch, commit)

    def open_by(self, login: str, branch: str, *, base: str = "main", title: str = "A change", fork: bool = False) -> Request:
        """Open a request of a person, from a branch of the project or of a fork. The branch is created if there is none."""
        self.accounts.setdefault(login, len(self.accounts) + 1)
        if fork:
            head = commit_id(f"{login}/{branch}")
            self.trees[head] = _README
        else:
            if branch not in self.branches:
                self.push(branch, commit_id(branch))
            head = self.branches[branch]
        return self._add(Request(self._next_number(), branch, head, base, login, title, "", fork))

    # --- what calls of the API do ------------------------------------------------------------------------------------------

    def create_request(self, head_branch: str, base: str, title: str, body: str, *, exists_status: int) -> Request:
        if head_branch not in self.branches or base not in self.branches:
            raise RefusalError(422, "Validation Failed: a branch does not exist")
        if any(request.state == "open" for request in self.from_branch(head_branch, base)):
            raise RefusalError(exists_status, f"A pull request already exists for {head_branch}.")
        head = self.branches[head_branch]
        return self._add(Request(self._next_number(), head_branch, head, base, self.login, title, body))

    def from_branch(self, head_branch: str, base: str) -> list[Request]:
        """Return the requests from a branch of the project, newest first."""
        return [
            request
            for request in reversed(self.requests.values())
            if (request.head_branch, request.base, request.fork) == (head_branch, base, False)
        ]

    def request(self, number: int) -> Request:
        if number not in self.requests:
            raise RefusalError(404, "Not Found")
        return self.requests[number]

    def close(self, number: int) -> Request:
        request = self.request(number)
        if request.state == "open":
            request.state = "closed"
        return request

    def merge(self, number: int, head: str | None) -> Request:
        request = self.request(number)
        if request.state != "open":
            raise RefusalError(405, "Pull Request is not mergeable")
        if head is not None and head != request.head:
            raise RefusalError(409, "Head branch was modified. Review and try the merge again.")
        request.state = "merged"
        request.merge_commit = commit_id(f"merge of {request.head}")
        self.trees[request.merge_commit] = self.trees.get(request.head, _README)
        self.branches[request.base] = request.merge_commit
        return request

    def add_status(self, commit: str, name: str, state: str, summary: str, link: str) -> Status:
        self.known_tree(commit, 422)
        status = Status(len(self.statuses) + 1, commit, name, state, summary, link)
        self.statuses.append(status)
        return status

    def statuses_of(self, commit: str) -> list[Status]:
        """Return the statuses of a commit, newest first."""
        return [status for status in reversed(self.statuses) if status.commit == commit]

    def notes_of(self, number: int) -> list[Note]:
        self.request(number)
        return [note for note in self.notes if note.number == number]

    def add_note(self, number: int, body: str, author: str | None = None) -> Note:
        self.request(number)
        note = Note(len(self.notes) + 1, number, author or self.login, body)
        self.notes.append(note)
        return note

    def edit_note(self, note_id: int, body: str) -> Note:
        note = next((note for note in self.notes if note.note_id == note_id), None)
        if note is None or note.author != self.login:
            raise RefusalError(404, "Not Found")
        note.body = body
        return note

    def known_tree(self, commit: str, status: int = 404) -> Mapping[bytes, Blob]:
        if commit in self.trees or commit in self.branches.values():
            return self.trees.get(commit, _README)
        raise RefusalError(status, f"No commit found for SHA: {commit}")

    def tree_id(self, commit: str) -> str:
        return object_id("tree", write_tree(self.known_tree(commit)), 40)

    def _add(self, request: Request) -> Request:
        self.requests[request.number] = request
        return request

    def _next_number(self) -> int:
        return len(self.requests) + 1


def commit_id(text: str) -> str:
    """Return the id of an invented commit."""
    return object_id("blob", text.encode(), 40)
