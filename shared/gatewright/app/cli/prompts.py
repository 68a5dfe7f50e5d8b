"""``prompts``: the exact prompt of a role for a document on disk, made by the code of the roles. Nothing is sent."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.app.cli.schemas import read_document
from gatewright.errors import MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts import RunRequest
    from gatewright.contracts.vocabulary import Repository
    from gatewright.git.host.tree_at import TreeAt
    from gatewright.prompts.library import PromptLibrary, ReplyForm, RoleId
    from gatewright.prompts.prompt import Prompt

prompts = typer.Typer(help="Print the prompts of models and agents.", no_args_is_help=True)


class RoleName(StrEnum):
    """The roles that ask models."""

    PM = "pm"
    TECHLEAD = "techlead"
    REVIEWER = "reviewer"
    WORKER = "worker"


class BriefForm(StrEnum):
    """The answer formats of a worker."""

    FILES = "files"
    WORKSPACE = "workspace"


def register(app: typer.Typer) -> None:
    prompts.command("show")(show)
    app.add_typer(prompts, name="prompts")


@reported
def show(
    role: Annotated[RoleName, typer.Argument(metavar="ROLE", help="pm, techlead, reviewer or worker")],
    contract: Annotated[str, typer.Option(metavar="FILE|-", help="Task contract as JSON; for pm, a run request")],
    patch: Annotated[Path | None, typer.Option(metavar="FILE", help="For reviewer: change to judge")] = None,
    form: Annotated[
        BriefForm, typer.Option(help="For worker: whole files by a model, or edits by an agent")
    ] = BriefForm.WORKSPACE,
    json_output: JsonOutput = False,
) -> None:
    """Print the exact prompt of a role, without sending it."""
    from gatewright.service.settings import ServiceSettings

    folder = ServiceSettings.load().prompts
    prompt = make_prompt(role.value, read_document(contract), folder=folder, form=form.value, patch=patch)
    if json_output:
        emit({"system": prompt.system, "user": prompt.order, "directive": prompt.directive, "digests": dict(prompt.digests)})
        return
    for title, text in (("system", prompt.system), ("order", prompt.order)):
        write_line(f"--- {title} ---")
        for line in text.splitlines():
            write_line(printable(line))
    for name, digest in prompt.digests.items():
        write_line(f"--- sha256 of {name}: {digest}")


def make_prompt(role: RoleId, data: bytes, *, folder: Path | None, form: ReplyForm, patch: Path | None) -> Prompt:
    """Build the prompt of ``role`` for ``data``: a run request for the pm, a contract for the others.

    Args:
        folder: folder of prompt files; None for those of the package.
        form: format of a worker's answer.
        patch: the candidate that a reviewer judges.

    Raises:
        MalformedError: the document is invalid.
        PromptsError: the prompt cannot be made.
        GitError: the repository cannot be read.
    """
    from gatewright import scope
    from gatewright.contracts import RunRequest, TaskContract, codec
    from gatewright.prompts.library import PromptLibrary
    from gatewright.prompts.orders import reviewer_order, techlead_order
    from gatewright.prompts.worker_brief import RepositoryAccess, WorkerBrief, worker_prompt

    library = PromptLibrary(folder)
    if role == "pm":
        return _request_prompt(library, codec.decode(data, RunRequest))
    contract = codec.decode(data, TaskContract)
    if role == "reviewer":
        return reviewer_order(library, contract, _read_patch(patch))
    if role == "worker":
        return worker_prompt(
            library, WorkerBrief(contract=contract, form=form, access=RepositoryAccess(shell=contract.tool_permissions.shell))
        )
    allowed = scope.AllowedPaths(contract.allowed_paths)
    tree = _repository_tree(contract.repository, contract.rollback.baseline_ref)
    files = sorted(path for path in tree.paths if allowed.cover(path.encode()))
    return techlead_order(library, contract, files, contract.sharding.count if contract.sharding is not None else 1)


def _request_prompt(library: PromptLibrary, request: RunRequest) -> Prompt:
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.prompts.orders import pm_order
    from gatewright.prompts.repository_view import look_at

    tree = _repository_tree(request.repository, request.baseline_ref)
    view = asyncio.run(look_at(tree, request.request, request.allowed_paths))
    return pm_order(library, request, user_checkout(_local_folder(request.repository)).commit_named(request.baseline_ref), view)


def _repository_tree(repository: Repository | None, ref: str) -> TreeAt:
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.git.host.tree_at import tree_at

    return tree_at(user_checkout(_local_folder(repository)), ref)


def _local_folder(repository: Repository | None) -> Path:
    place = Path(repository.url) if repository is not None else Path()
    if not place.is_absolute() or not place.is_dir():
        raise MalformedError("the role looks at the repository, which is not on this host: clone it first", code="not_local")
    return place


def _read_patch(file: Path | None) -> bytes:
    if file is None:
        raise MalformedError("a reviewer judges a change: name it with --patch FILE", code="missing")
    try:
        return file.read_bytes()
    except OSError as error:
        raise MalformedError(f"{file} cannot be read: {error.strerror}", code="unreadable") from error
