"""The prompt that a role would be sent for a document on disk: made by the very code that the roles use, and sent to no one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gatewright import scope
from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import Repository
from gatewright.errors import MalformedError
from gatewright.git.host.tree_at import TreeAt, tree_at
from gatewright.prompts.library import PromptLibrary, ReplyForm, RoleId
from gatewright.prompts.orders import pm_order, reviewer_order, techlead_order
from gatewright.prompts.prompt import Prompt
from gatewright.prompts.repository_view import look_at
from gatewright.prompts.worker_brief import RepositoryAccess, WorkerBrief, worker_prompt


def prompt_of(role: RoleId, data: bytes, *, folder: Path | None, form: ReplyForm, patch: Path | None) -> Prompt:
    """What ``role`` would be sent for ``data``: a run request for the pm, a contract for the others.

    ``form``: of a worker's answer; ``patch``: the candidate that a reviewer judges.
    Raises MalformedError, PromptsError, GitError.
    """
    library = PromptLibrary(folder)
    if role == "pm":
        return _of_request(library, codec.decode(data, RunRequest))
    contract = codec.decode(data, TaskContract)
    if role == "reviewer":
        return reviewer_order(library, contract, _patch(patch))
    if role == "worker":
        return worker_prompt(
            library, WorkerBrief(contract=contract, form=form, access=RepositoryAccess(shell=contract.tool_permissions.shell))
        )
    allowed = scope.AllowedPaths(contract.allowed_paths)
    tree = _tree(contract.repository, contract.rollback.baseline_ref)
    files = sorted(path for path in tree.paths if allowed.cover(path.encode()))
    return techlead_order(library, contract, files, contract.sharding.count if contract.sharding is not None else 1)


def _of_request(library: PromptLibrary, request: RunRequest) -> Prompt:
    tree = _tree(request.repository, request.baseline_ref)
    view = asyncio.run(look_at(tree, request.request, request.allowed_paths))
    return pm_order(library, request, user_checkout(_place(request.repository)).commit_named(request.baseline_ref), view)


def _tree(repository: Repository | None, ref: str) -> TreeAt:
    return tree_at(user_checkout(_place(repository)), ref)


def _place(repository: Repository | None) -> Path:
    place = Path(repository.url) if repository is not None else Path()
    if not place.is_absolute() or not place.is_dir():
        raise MalformedError("the role looks at the repository, which is not on this host: clone it first", code="not_local")
    return place


def _patch(file: Path | None) -> bytes:
    if file is None:
        raise MalformedError("a reviewer judges a change: name it with --patch FILE", code="missing")
    try:
        return file.read_bytes()
    except OSError as error:
        raise MalformedError(f"{file} cannot be read: {error.strerror}", code="unreadable") from error
