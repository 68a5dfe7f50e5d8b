"""The API of Gitea and Forgejo, by their own description (swagger) of the fields that are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.forge.standin.app import Call, Reply, one_page
from tests.forge.standin.state import ForgeState, Note, RefusalError, Request, Status

REPOSITORY = "/repos/{owner}/{repo}"


class GiteaFace:
    root = "/api/v1"

    def __init__(self, state: ForgeState, token: str) -> None:
        self.state = state
        self._token = token
        self.routes = {
            "GET /user": self.user,
            f"GET {REPOSITORY}/pulls": self.pulls,
            f"POST {REPOSITORY}/pulls": self.create,
            f"GET {REPOSITORY}/pulls/{{index}}": self.pull,
            f"PATCH {REPOSITORY}/pulls/{{index}}": self.change,
            f"POST {REPOSITORY}/pulls/{{index}}/merge": self.merge,
            f"GET {REPOSITORY}/commits/{{ref}}/statuses": self.statuses,
            f"POST {REPOSITORY}/statuses/{{sha}}": self.set_status,
            f"GET {REPOSITORY}/issues/{{index}}/comments": self.comments,
            f"POST {REPOSITORY}/issues/{{index}}/comments": self.add_comment,
            f"PATCH {REPOSITORY}/issues/comments/{{id}}": self.edit_comment,
            f"GET {REPOSITORY}/collaborators/{{collaborator}}/permission": self.permission,
            f"GET {REPOSITORY}/git/commits/{{sha}}": self.commit,
        }

    def is_authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"token {self._token}"

    def refusal(self, status: int, message: str) -> Any:
        return {"message": message, "url": "https://gitea.example/api/swagger"}

    def check_call(self, call: Call) -> Sequence[str]:
        size = int(call.query.get("limit", "0"))
        return [f"{call.route}: {size} items of a page"] if size > 50 else []

    def check_reply(self, call: Call, reply: Reply) -> Sequence[str]:
        return ()

    def user(self, _call: Call) -> Reply:
        return Reply(200, self._user(self.state.login))

    def pulls(self, call: Call) -> Reply:
        self._check_project(call)
        state, base = call.query.get("state", "open"), call.query.get("base_branch", "")
        items = [
            request
            for request in reversed(self.state.requests.values())
            if state in ("all", "open" if request.state == "open" else "closed") and base in ("", request.base)
        ]
        page, more = one_page(items, call, "limit")
        return Reply(200, [self._pull(request) for request in page], more)

    def create(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        request = self.state.create_request(sent["head"], sent["base"], sent["title"], sent.get("body", ""), exists_status=409)
        return Reply(201, self._pull(request))

    def pull(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._pull(self.state.request(call.number("index"))))

    def change(self, call: Call) -> Reply:
        self._check_project(call)
        if self.state.request(call.number("index")).state == "merged":
            raise RefusalError(412, "cannot change state of this pull request, it was already merged")
        return Reply(201, self._pull(self.state.close(call.number("index"))))

    def merge(self, call: Call) -> Reply:
        self._check_project(call)
        assert call.body["Do"] == "merge"
        self.state.merge(call.number("index"), call.body.get("head_commit_id"))
        return Reply(200, None)

    def statuses(self, call: Call) -> Reply:
        self._check_project(call)
        self.state.known_tree(call.names["ref"], 400)
        # In no documented order: here the oldest is first.
        page, more = one_page(self.state.statuses_of(call.names["ref"])[::-1], call, "limit")
        return Reply(200, [self._status(status) for status in page], more)

    def set_status(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        status = self.state.add_status(
            call.names["sha"], sent["context"], sent["state"], sent.get("description", ""), sent.get("target_url", "")
        )
        return Reply(201, self._status(status))

    def comments(self, call: Call) -> Reply:
        self._check_project(call)
        # Gitea does not divide this list.
        return Reply(200, [self._comment(note) for note in self.state.notes_of(call.number("index"))])

    def add_comment(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(201, self._comment(self.state.add_note(call.number("index"), call.body["body"])))

    def edit_comment(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._comment(self.state.edit_note(call.number("id"), call.body["body"])))

    def permission(self, call: Call) -> Reply:
        self._check_project(call)
        login = call.names["collaborator"]
        if login not in self.state.accounts:
            raise RefusalError(404, "user does not exist")
        level = self.state.levels.get(login, "read")
        return Reply(200, {"permission": level, "role_name": level, "user": self._user(login)})

    def commit(self, call: Call) -> Reply:
        self._check_project(call)
        sha = call.names["sha"]
        return Reply(200, {"sha": sha, "commit": {"message": "a change", "tree": {"sha": self.state.tree_id(sha)}}})

    def _check_project(self, call: Call) -> None:
        if f"{call.names['owner']}/{call.names['repo']}" != self.state.project:
            raise RefusalError(404, "The target couldn't be found.")

    def _user(self, login: str) -> dict[str, Any]:
        return {"id": self.state.accounts[login], "login": login, "full_name": "", "email": f"{login}@noreply.example"}

    def _pull(self, request: Request) -> dict[str, Any]:
        own = {"id": 10, "full_name": self.state.project}
        fork = None if request.fork_deleted else {"id": 11, "full_name": f"{request.author}/shop"}
        merged = request.state == "merged"
        head_repo = fork if request.fork else own
        return {
            "id": 1000 + request.number,
            "number": request.number,
            "state": "open" if request.state == "open" else "closed",
            "title": request.title,
            "body": request.body,
            "user": self._user(request.author),
            "head": {
                "label": request.head_branch,
                "ref": request.head_branch,
                "sha": request.head,
                "repo_id": 0 if head_repo is None else head_repo["id"],
                "repo": head_repo,
            },
            "base": {"label": request.base, "ref": request.base, "sha": "0" * 40, "repo_id": 10, "repo": own},
            "merged": merged,
            "merged_at": "2026-01-01T00:00:00Z" if merged else None,
            "merge_commit_sha": request.merge_commit,
        }

    def _status(self, status: Status) -> dict[str, Any]:
        return {
            "id": status.status_id,
            "context": status.name,
            "status": status.state,
            "description": status.summary,
            "target_url": status.link,
        }

    def _comment(self, note: Note) -> dict[str, Any]:
        return {"id": note.note_id, "body": note.body, "user": self._user(note.author)}
