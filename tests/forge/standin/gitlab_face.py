"""GitLab's API, by its documentation of the fields that are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.forge.standin.app import Call, Reply, one_page
from tests.forge.standin.state import ForgeState, Note, RefusalError, Request, Status

PROJECT = "/projects/{id}"
REQUEST = f"{PROJECT}/merge_requests/{{iid}}"
_LEVELS = {"read": 20, "write": 30, "admin": 40}
_STATES = {"open": "opened", "closed": "closed", "merged": "merged"}


class GitLabFace:
    root = "/api/v4"

    def __init__(self, state: ForgeState, token: str) -> None:
        self.state = state
        self._token = token
        self.routes = {
            "GET /user": self.user,
            "GET /users": self.users,
            f"GET {PROJECT}/merge_requests": self.requests,
            f"POST {PROJECT}/merge_requests": self.create,
            f"GET {REQUEST}": self.request,
            f"PUT {REQUEST}": self.change,
            f"PUT {REQUEST}/merge": self.merge,
            f"GET {REQUEST}/notes": self.notes,
            f"POST {REQUEST}/notes": self.add_note,
            f"PUT {REQUEST}/notes/{{note_id}}": self.edit_note,
            f"GET {PROJECT}/repository/commits/{{sha}}/statuses": self.statuses,
            f"POST {PROJECT}/statuses/{{sha}}": self.set_status,
            f"GET {PROJECT}/members/all/{{user_id}}": self.member,
            f"GET {PROJECT}/repository/tree": self.tree,
        }

    def is_authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("private-token") == self._token

    def refusal(self, status: int, message: str) -> Any:
        return {"message": [message] if status == 409 else message}

    def check_call(self, call: Call) -> Sequence[str]:
        return [f"{call.route}: id {call.names['id']}"] if call.names.get("id", self.state.project).isdecimal() else []

    def check_reply(self, call: Call, reply: Reply) -> Sequence[str]:
        return ()

    def user(self, _call: Call) -> Reply:
        return Reply(200, self._user(self.state.login))

    def users(self, call: Call) -> Reply:
        login = call.query["username"]
        return Reply(200, [self._user(login)] if login in self.state.accounts else [])

    def requests(self, call: Call) -> Reply:
        self._check_project(call)
        query = call.query
        items = [
            request
            for request in reversed(self.state.requests.values())
            if query["state"] in ("all", _STATES[request.state])
            and query.get("source_branch", request.head_branch) == request.head_branch
            and query.get("target_branch", request.base) == request.base
        ]
        page, more = one_page(items, call, "per_page")
        return Reply(200, [self._request(request) for request in page], more)

    def create(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        request = self.state.create_request(
            sent["source_branch"], sent["target_branch"], sent["title"], sent["description"], exists_status=409
        )
        return Reply(201, self._request(request))

    def request(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._request(self.state.request(call.number("iid"))))

    def change(self, call: Call) -> Reply:
        self._check_project(call)
        assert call.body == {"state_event": "close"}
        return Reply(200, self._request(self.state.close(call.number("iid"))))

    def merge(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._request(self.state.merge(call.number("iid"), call.body.get("sha"))))

    def notes(self, call: Call) -> Reply:
        self._check_project(call)
        page, more = one_page(self.state.notes_of(call.number("iid")), call, "per_page")
        return Reply(200, [self._note(note) for note in page], more)

    def add_note(self, call: Call) -> Reply:
        self._check_project(call)
        _check_quick_actions(call.body["body"])
        return Reply(201, self._note(self.state.add_note(call.number("iid"), call.body["body"])))

    def edit_note(self, call: Call) -> Reply:
        self._check_project(call)
        _check_quick_actions(call.body["body"])
        return Reply(200, self._note(self.state.edit_note(call.number("note_id"), call.body["body"])))

    def statuses(self, call: Call) -> Reply:
        """The newest status of each name, as without the parameter ``all``."""
        self._check_project(call)
        self.state.known_tree(call.names["sha"])
        newest: dict[str, Status] = {}
        for status in self.state.statuses_of(call.names["sha"]):
            newest.setdefault(status.name, status)
        page, more = one_page(list(newest.values()), call, "per_page")
        return Reply(200, [self._status(status) for status in page], more)

    def set_status(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        if sent["state"] not in ("pending", "running", "success", "failed", "canceled", "skipped"):
            raise RefusalError(400, "state does not have a valid value")
        shown = next((status for status in self.state.statuses_of(call.names["sha"]) if status.name == sent["name"]), None)
        if shown is not None and shown.state == sent["state"]:
            raise RefusalError(400, f"Cannot transition status via :enqueue from :{shown.state}")
        status = self.state.add_status(
            call.names["sha"], sent["name"], sent["state"], sent.get("description", ""), sent.get("target_url", "")
        )
        return Reply(201, self._status(status))

    def member(self, call: Call) -> Reply:
        self._check_project(call)
        login = next((login for login, user_id in self.state.accounts.items() if user_id == call.number("user_id")), "")
        if login not in self.state.levels:
            raise RefusalError(404, "404 Not found")
        level = _LEVELS[self.state.levels[login]]
        return Reply(200, self._user(login) | {"state": "active", "access_level": level})

    def tree(self, call: Call) -> Reply:
        self._check_project(call)
        entries = self.state.known_tree(call.query["ref"])
        # Folders first, as GitLab lists them.
        listed = [
            {"id": entry.object_id, "name": name.decode(), "path": name.decode(), "mode": entry.mode.zfill(6)}
            for name, entry in sorted(entries.items(), key=lambda item: (item[1].mode != "40000", item[0]))
        ]
        page, more = one_page(listed, call, "per_page")
        return Reply(200, page, more)

    def _check_project(self, call: Call) -> None:
        if call.names["id"] != self.state.project:
            raise RefusalError(404, "404 Project Not Found")

    def _user(self, login: str) -> dict[str, Any]:
        return {"id": self.state.accounts[login], "username": login, "state": "active"}

    def _request(self, request: Request) -> dict[str, Any]:
        source = (None if request.fork_deleted else 11) if request.fork else 10
        return {
            "id": 1000 + request.number,
            "iid": request.number,
            "state": _STATES[request.state],
            "title": request.title,
            "description": request.body,
            "author": self._user(request.author),
            "source_branch": request.head_branch,
            "target_branch": request.base,
            "source_project_id": source,
            "target_project_id": 10,
            "sha": request.head,
            "merge_commit_sha": request.merge_commit,
            "squash_commit_sha": None,
        }

    def _status(self, status: Status) -> dict[str, Any]:
        return {
            "id": status.status_id,
            "sha": status.commit,
            "name": status.name,
            "status": status.state,
            "description": status.summary or None,
            "target_url": status.link or None,
        }

    def _note(self, note: Note) -> dict[str, Any]:
        return {"id": note.note_id, "body": note.body, "author": self._user(note.author), "system": False}


def _check_quick_actions(body: str) -> None:
    """A line that starts with a slash is an order to GitLab."""
    assert not any(line.startswith("/") for line in body.splitlines())
