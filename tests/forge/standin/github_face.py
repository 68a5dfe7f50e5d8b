"""GitHub's API: official examples with the values of the state, each held against the official description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.forge.standin.app import Call, Reply, one_page
from tests.forge.standin.openapi import faults_of_call, faults_of_reply, official_example
from tests.forge.standin.state import ForgeState, Note, RefusalError, Request, Status

REPOSITORY = "/repos/{owner}/{repo}"


class GitHubFace:
    root = ""

    def __init__(self, state: ForgeState, token: str) -> None:
        self.state = state
        self._token = token
        self.routes = {
            "GET /user": self.user,
            f"GET {REPOSITORY}/pulls": self.pulls,
            f"POST {REPOSITORY}/pulls": self.create,
            f"GET {REPOSITORY}/pulls/{{pull_number}}": self.pull,
            f"PATCH {REPOSITORY}/pulls/{{pull_number}}": self.change,
            f"PUT {REPOSITORY}/pulls/{{pull_number}}/merge": self.merge,
            f"GET {REPOSITORY}/commits/{{ref}}/statuses": self.statuses,
            f"POST {REPOSITORY}/statuses/{{sha}}": self.set_status,
            f"GET {REPOSITORY}/issues/{{issue_number}}/comments": self.comments,
            f"POST {REPOSITORY}/issues/{{issue_number}}/comments": self.add_comment,
            f"PATCH {REPOSITORY}/issues/comments/{{comment_id}}": self.edit_comment,
            f"GET {REPOSITORY}/collaborators/{{username}}/permission": self.permission,
            f"GET {REPOSITORY}/git/commits/{{commit_sha}}": self.commit,
        }

    def is_authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {self._token}"

    def refusal(self, status: int, message: str) -> Any:
        if status == 422:
            return {
                "message": "Validation Failed",
                "documentation_url": "https://docs.github.com/rest",
                "errors": [{"resource": "PullRequest", "code": "custom", "message": message}],
            }
        return {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}

    def check_call(self, call: Call) -> Sequence[str]:
        return faults_of_call(call)

    def check_reply(self, call: Call, reply: Reply) -> Sequence[str]:
        return faults_of_reply(call, reply)

    def user(self, _call: Call) -> Reply:
        example = official_example("private-user-response-with-public-and-private-profile-information")
        return Reply(200, example | self._user(self.state.login))

    def pulls(self, call: Call) -> Reply:
        self._check_project(call)
        state, head, base = call.query.get("state", "open"), call.query.get("head", ""), call.query.get("base", "")
        owner = self.state.project.split("/")[0]
        items = [
            request
            for request in reversed(self.state.requests.values())
            if state in ("all", "open" if request.state == "open" else "closed")
            and head in ("", f"{request.author if request.fork else owner}:{request.head_branch}")
            and base in ("", request.base)
        ]
        page, more = one_page(items, call, "per_page")
        template = official_example("pull-request-simple-items")[0]
        return Reply(200, [self._pull(template, request) for request in page], more)

    def create(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        request = self.state.create_request(sent["head"], sent["base"], sent["title"], sent.get("body", ""), exists_status=422)
        return Reply(201, self._whole(request))

    def pull(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._whole(self.state.request(call.number("pull_number"))))

    def change(self, call: Call) -> Reply:
        self._check_project(call)
        assert call.body == {"state": "closed"}
        return Reply(200, self._whole(self.state.close(call.number("pull_number"))))

    def merge(self, call: Call) -> Reply:
        self._check_project(call)
        request = self.state.merge(call.number("pull_number"), call.body.get("sha"))
        return Reply(200, {"sha": request.merge_commit, "merged": True, "message": "Pull Request successfully merged"})

    def statuses(self, call: Call) -> Reply:
        self._check_project(call)
        self.state.known_tree(call.names["ref"], 422)
        page, more = one_page(self.state.statuses_of(call.names["ref"]), call, "per_page")
        return Reply(200, [self._status(status) for status in page], more)

    def set_status(self, call: Call) -> Reply:
        self._check_project(call)
        sent = call.body
        if len(sent.get("description", "")) > 140:
            raise RefusalError(422, "description is too long (maximum is 140 characters)")
        status = self.state.add_status(
            call.names["sha"], sent["context"], sent["state"], sent.get("description", ""), sent.get("target_url", "")
        )
        return Reply(201, self._status(status))

    def comments(self, call: Call) -> Reply:
        self._check_project(call)
        page, more = one_page(self.state.notes_of(call.number("issue_number")), call, "per_page")
        return Reply(200, [self._comment(note) for note in page], more)

    def add_comment(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(201, self._comment(self.state.add_note(call.number("issue_number"), call.body["body"])))

    def edit_comment(self, call: Call) -> Reply:
        self._check_project(call)
        return Reply(200, self._comment(self.state.edit_note(call.number("comment_id"), call.body["body"])))

    def permission(self, call: Call) -> Reply:
        self._check_project(call)
        login = call.names["username"]
        if login not in self.state.accounts:
            raise RefusalError(404, "Not Found")
        example = official_example("repository-collaborator-permission-response-if-user-has-admin-permissions")
        role = self.state.levels.get(login, "read")
        user = example["user"] | self._user(login) | {"role_name": role}
        return Reply(200, example | {"permission": role, "role_name": role, "user": user})

    def commit(self, call: Call) -> Reply:
        self._check_project(call)
        sha = call.names["commit_sha"]
        example = official_example("git-commit-2")
        return Reply(200, example | {"sha": sha, "tree": example["tree"] | {"sha": self.state.tree_id(sha)}})

    def _check_project(self, call: Call) -> None:
        if f"{call.names['owner']}/{call.names['repo']}" != self.state.project:
            raise RefusalError(404, "Not Found")

    def _user(self, login: str) -> dict[str, Any]:
        return {"login": login, "id": self.state.accounts[login]}

    def _whole(self, request: Request) -> dict[str, Any]:
        merged = request.state == "merged"
        return self._pull(official_example("pull-request"), request) | {"merged": merged}

    def _pull(self, template: dict[str, Any], request: Request) -> dict[str, Any]:
        head, base = template["head"], template["base"]
        own = base["repo"] | {"id": 10, "full_name": self.state.project}
        fork = None if request.fork_deleted else head["repo"] | {"id": 11, "full_name": f"{request.author}/shop"}
        merged = request.state == "merged"
        values: dict[str, Any] = {
            "number": request.number,
            "state": "open" if request.state == "open" else "closed",
            "title": request.title,
            "body": request.body or None,
            "user": template["user"] | self._user(request.author),
            "head": head | {"ref": request.head_branch, "sha": request.head, "repo": fork if request.fork else own},
            "base": base | {"ref": request.base, "repo": own},
            "merged_at": "2026-01-01T00:00:00Z" if merged else None,
            "closed_at": None if request.state == "open" else "2026-01-01T00:00:00Z",
            # The example of a team is of an older version than its description.
            "requested_teams": [],
            # For an open request: GitHub's test merge.
            "merge_commit_sha": request.merge_commit if merged else "f" * 40,
        }
        return template | values

    def _status(self, status: Status) -> dict[str, Any]:
        values: dict[str, Any] = official_example("status") | {
            "id": status.status_id,
            "context": status.name,
            "state": status.state,
            "description": status.summary or None,
            "target_url": status.link or None,
        }
        return values

    def _comment(self, note: Note) -> dict[str, Any]:
        example = official_example("issue-comment")
        values: dict[str, Any] = {"body": note.body, "user": example["user"] | self._user(note.author)}
        return dict(example) | {"id": note.note_id} | values
