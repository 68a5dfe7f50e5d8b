"""``check`` and ``policy explain``: what the gates would say, without a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.checking.asking import DryRunAnswer
    from gatewright.app.cli.checking.proof_preview import CommandProof
    from gatewright.contracts import RoleContractSummary

Contract = Annotated[
    Path, typer.Option(metavar="FILE", help="The task contract or run request (JSON); - reads standard input.")
]
Policies = Annotated[Path | None, typer.Option(metavar="DIR", help="The policies.", show_default="those of the package")]

policy = typer.Typer(no_args_is_help=True, help="What the policies allow, rule by rule.")

_HELP_CHECK = """Judge a change of the repository that you stand in against a contract, as the gatekeeper would.

Read-only: nothing in the repository changes and nothing of it is run. The change goes from --base to --head or, with \
--staged, to what is about to be committed. For CI of other projects and for git hooks. Exit code 1 when it is refused.

Example: gatewright check --contract contract.json --base origin/main
"""
_HELP_EXPLAIN = """Show, rule by rule, what would be decided about a contract and why, without running anything.

With --patch and --repo the rules on the change are asked too. Exit code 1 when it would be refused.

Example: gatewright policy explain contract.json --patch fix.diff --repo .
"""


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_CHECK)(check)
    policy.command(help=_HELP_EXPLAIN)(explain)
    policy.command()(show)
    app.add_typer(policy, name="policy")


@reported
def check(
    contract: Contract,
    *,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Where the change begins.", show_default="the contract's baseline")
    ] = None,
    head: Annotated[str, typer.Option(metavar="REF", help="Where it ends.")] = "HEAD",
    staged: Annotated[bool, typer.Option("--staged", help="It ends in what is staged.")] = False,
    repo: Annotated[Path, typer.Option(metavar="DIR", help="The repository.", show_default="the one you stand in")] = Path(),
    policies: Policies = None,
    json_output: JsonOutput = False,
) -> None:
    from msgspec.structs import replace

    from gatewright.app.cli.checking.asking import ask_gates, found_change, read_contract
    from gatewright.app.cli.checking.documents import read_submittable
    from gatewright.app.cli.run.preflight import left_out_words
    from gatewright.app.cli.settings import hook_index
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.contracts import TaskContract

    document = read_submittable(str(contract))
    start = base or (document.rollback.baseline_ref if isinstance(document, TaskContract) else document.baseline_ref)
    index, place = hook_index() if staged else None, repo.absolute()
    with found_change(place, start, head=head, index=index, use_index=staged) as change:
        answer = ask_gates(read_contract(document), change, policies=policies, judge_policy=False)
    ends_here = index is None and (staged or change.candidate == user_checkout(place).resolve())
    left_out = left_out_words(place, beyond_index=staged) if ends_here else None
    if left_out is not None:
        answer = replace(answer, unjudged=(*answer.unjudged, left_out))
    _tell(answer, json_output=json_output)


@reported
def show(
    *,
    policies: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The policies.", show_default="GATEWRIGHT_POLICIES, or the package's"),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """List the policies in force, and where each file comes from: the folder, or the package."""
    import hashlib

    from gatewright.app.cli.context import find_own_policies, find_place
    from gatewright.app.cli.settings import DoctorSettings
    from gatewright.policy_files import policy_origins

    folder = (policies or find_own_policies(find_place()) or DoctorSettings.load().policies).absolute()
    files = [
        {
            "name": each.name,
            "from": "delivered" if each.delivered else "folder",
            "path": str(each.path),
            "sha256": hashlib.sha256(each.path.read_bytes()).hexdigest() if each.path.is_file() else None,
        }
        for each in policy_origins(folder)
    ]
    if json_output:
        emit({"folder": str(folder), "files": files})
        return
    width = max(len(str(each["name"])) for each in files)
    say(printable(f"Policies of {folder}, over those of the package"))
    for each in files:
        digest = str(each["sha256"] or "a folder")[:12]
        say(printable(f"{each['name']:<{width}}  {each['from']:<9}  {digest:<12}  {each['path']}"))


@reported
def explain(
    contract: Annotated[
        Path, typer.Argument(metavar="CONTRACT", help="The task contract or run request; - for standard input.")
    ],
    *,
    patch: Annotated[Path | None, typer.Option(metavar="FILE", help="A change to judge as well.")] = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="The repository: for rules that need its baseline.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Where the change begins.", show_default="the contract's baseline")
    ] = None,
    publisher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ask also whether this publisher may submit it.")
    ] = None,
    policies: Policies = None,
    json_output: JsonOutput = False,
) -> None:
    from gatewright.app.cli.checking.asking import ChangeLocation, ask_gates, read_contract
    from gatewright.app.cli.checking.documents import read_document, read_submittable
    from gatewright.app.cli.checking.proof_preview import preview
    from gatewright.app.cli.context import find_own_policies, find_place
    from gatewright.app.cli.user_git import with_orderer
    from gatewright.contracts import RunRequest, TaskContract, codec
    from gatewright.ledger.role_bindings import role_contract_summary

    submitted = read_submittable(str(contract))
    if publisher is None:  # then it is the person at the command line who would submit it
        submitted = with_orderer(submitted, Path())
    kind = "request" if isinstance(submitted, RunRequest) else "contract"
    document = read_contract(submitted)
    data = read_document(str(patch)) if patch is not None else None
    source = str(Path(repo).absolute()) if repo is not None and Path(repo).is_dir() else repo
    change = ChangeLocation(source, base, patch=data)
    folder = policies or find_own_policies(find_place())
    answer = ask_gates(document, change, policies=folder, judge_policy=True, publisher=publisher, kind=kind)
    place = Path(source) if source is not None and Path(source).is_dir() else None
    compiled = codec.decode(document, TaskContract)
    proofs = asyncio.run(preview(compiled, place, base))
    _tell(answer, json_output=json_output, ahead=ContractPreview(proofs, role_contract_summary(compiled)))


class ContractPreview(NamedTuple):
    """What a run of the contract will be: what its acceptance commands will have to show, and the role that it resolves to."""

    proofs: tuple[CommandProof, ...]
    role: RoleContractSummary


def _tell(answer: DryRunAnswer, *, json_output: bool, ahead: ContractPreview | None = None) -> None:
    """With ``ahead`` every rule is told, too."""
    from gatewright.app.cli.checking.explaining import role_line, rule_table, verdict_lines
    from gatewright.app.cli.checking.proof_preview import proof_lines
    from gatewright.app.cli.outcome import Exit

    if json_output:
        document: dict[str, Any] = {"passed": answer.passed, "reports": answer.reports, "unjudged": answer.unjudged}
        document["judged_files"] = answer.judged_files
        emit({**document, "testing": ahead.proofs, "role_contract_summary": ahead.role} if ahead is not None else document)
    else:
        if ahead is not None:
            rule_table(answer)
            say(printable(role_line(ahead.role)))
        for line in (*(proof_lines(ahead.proofs) if ahead is not None and ahead.proofs else ()), *verdict_lines(answer)):
            say(printable(line))
    raise typer.Exit(Exit.GOOD if answer.passed else Exit.FAILED)
