"""``check`` and ``policy explain``: the decisions of the gates, without a run.

``policy explain`` also shows what the acceptance commands of a contract will have to prove (docs/testing.md). It looks for the
test framework on the baseline. The test runner also detects changes of the files that a command starts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.app.cli.schemas import read_document, read_submittable
from gatewright.errors import CommandRefusedError, GitError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.dry_run import DryRunAnswer
    from gatewright.contracts import RoleContractSummary, TaskContract
    from gatewright.ecosystems.port import TreeFiles

Contract = Annotated[Path, typer.Option(metavar="FILE", help="Task contract or run request as JSON (- reads standard input)")]
Policies = Annotated[Path | None, typer.Option(metavar="DIR", help="Policy directory", show_default="package policies")]
policy = typer.Typer(no_args_is_help=True, help="Explain which policies apply and what they allow.")
_HELP_CHECK = """Judge a change against a contract, as the gatekeeper would.

The change goes from --base to --head, or to the staged files. The check is read-only and runs nothing from the repository.
Use it in CI and in git hooks. Exit code 1 means that the change is refused.

    gatewright check --contract contract.json --base origin/main
"""
_HELP_EXPLAIN = """Show how each rule judges a contract, without running anything.

With --patch and --repo, the rules about the change apply too. Exit code 1 means that the change would be refused.

    gatewright policy explain contract.json --patch fix.diff --repo .
"""
_PROVED = "its tests are reported one by one, a planted one must fail, none of the baseline's may be lost"


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
        str | None, typer.Option(metavar="REF", help="Start of the change", show_default="baseline of the contract")
    ] = None,
    head: Annotated[str, typer.Option(metavar="REF", help="End of the change")] = "HEAD",
    staged: Annotated[bool, typer.Option("--staged", help="Judge the staged files")] = False,
    repo: Annotated[Path, typer.Option(metavar="DIR", help="Repository to check", show_default="current directory")] = Path(),
    policies: Policies = None,
    json_output: JsonOutput = False,
) -> None:
    from msgspec.structs import replace

    from gatewright.app.cli.dry_run import ask_gates, locate_change, read_contract
    from gatewright.app.cli.run.preflight import left_out_words
    from gatewright.app.cli.settings import hook_index
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.contracts import TaskContract

    document = read_submittable(str(contract))
    start = base or (document.rollback.baseline_ref if isinstance(document, TaskContract) else document.baseline_ref)
    index, place = hook_index() if staged else None, repo.absolute()
    with locate_change(place, start, head=head, index=index, use_index=staged) as change:
        answer = ask_gates(read_contract(document), change, policies=policies, judge_policy=False)
    ends_here = index is None and (staged or change.candidate == user_checkout(place).resolve())
    left_out = left_out_words(place, beyond_index=staged) if ends_here else None
    if left_out is not None:
        answer = replace(answer, unjudged=(*answer.unjudged, left_out))
    _print_answer(answer, json_output=json_output)


@reported
def show(
    *,
    policies: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Policy directory", show_default="GATEWRIGHT_POLICIES, or package policies"),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """List the policies in force and the source of each file."""
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
    write_line(printable(f"Policies of {folder}, over those of the package"))
    for each in files:
        digest = str(each["sha256"] or "a folder")[:12]
        write_line(printable(f"{each['name']:<{width}}  {each['from']:<9}  {digest:<12}  {each['path']}"))


@reported
def explain(
    contract: Annotated[Path, typer.Argument(metavar="FILE", help="Task contract or run request (- reads standard input)")],
    *,
    patch: Annotated[Path | None, typer.Option(metavar="FILE", help="Change to judge as well")] = None,
    repo: Annotated[str | None, typer.Option(metavar="PATH|URL", help="Repository, for rules that need the baseline")] = None,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Start of the change", show_default="baseline of the contract")
    ] = None,
    publisher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also check whether this publisher may submit the contract")
    ] = None,
    policies: Policies = None,
    json_output: JsonOutput = False,
) -> None:
    from gatewright.app.cli.context import find_own_policies, find_place
    from gatewright.app.cli.dry_run import ChangeLocation, ask_gates, judge_environment, read_contract, stack_environments
    from gatewright.app.cli.user_git import with_orderer
    from gatewright.contracts import RunRequest, TaskContract, codec
    from gatewright.ledger.role_bindings import role_contract_summary

    submitted = read_submittable(str(contract))
    if publisher is None:  # then the user of the command line would submit it
        submitted = with_orderer(submitted, Path())
    kind = "request" if isinstance(submitted, RunRequest) else "contract"
    document = read_contract(submitted)
    data = read_document(str(patch)) if patch is not None else None
    source = str(Path(repo).absolute()) if repo is not None and Path(repo).is_dir() else repo
    change = ChangeLocation(source, base, patch=data)
    here = find_place()
    folder = policies or find_own_policies(here)
    answer = ask_gates(document, change, policies=folder, judge_policy=True, publisher=publisher, kind=kind)
    answer = judge_environment(answer, submitted.environment, stack_environments(here.home if here.bus is None else None))
    place = Path(source) if source is not None and Path(source).is_dir() else None
    compiled = codec.decode(document, TaskContract)
    proofs = asyncio.run(preview_proofs(compiled, place, base))
    _print_answer(answer, json_output=json_output, ahead=ContractPreview(proofs, role_contract_summary(compiled)))


class ContractPreview(NamedTuple):
    """Preview of a run of the contract: the proofs of its acceptance commands, and its resolved role."""

    proofs: tuple[CommandProof, ...]
    role: RoleContractSummary


def _print_answer(answer: DryRunAnswer, *, json_output: bool, ahead: ContractPreview | None = None) -> None:
    """Print the answer; with ``ahead`` also every rule."""
    from gatewright.app.cli.dry_run import role_line, rule_table, verdict_lines

    if json_output:
        document: dict[str, Any] = {"passed": answer.passed, "reports": answer.reports, "unjudged": answer.unjudged}
        document["judged_files"] = answer.judged_files
        emit({**document, "testing": ahead.proofs, "role_contract_summary": ahead.role} if ahead is not None else document)
    else:
        if ahead is not None:
            rule_table(answer)
            write_line(printable(role_line(ahead.role)))
        for line in (*(proof_lines(ahead.proofs) if ahead is not None and ahead.proofs else ()), *verdict_lines(answer)):
            write_line(printable(line))
    raise typer.Exit(Exit.GOOD if answer.passed else Exit.FAILED)


@dataclass(frozen=True, slots=True)
class CommandProof:
    """The proof of one acceptance command. ``framework`` is empty without a proof; ``words``: the proof, or why there is none.

    ``costs``: additional work of the proof. ``remains``: gaps of the proof. Both are empty without a proof.
    """

    name: str
    command: str
    framework: str
    words: str
    hidden: bool
    costs: str = ""
    remains: str = ""


async def preview_proofs(contract: TaskContract, repository: Path | None, baseline: str | None) -> tuple[CommandProof, ...]:
    """Predict the proof of each acceptance command from the baseline in ``repository``, or else from the command alone."""
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.git.host.tree_at import tree_at
    from gatewright.sandbox.argv import parse_command

    tree: TreeFiles | None = None
    if repository is not None:
        try:
            tree = tree_at(user_checkout(repository), baseline or contract.rollback.baseline_ref)
        except GitError:
            tree = None  # the gates report that
    proofs = []
    for test in contract.acceptance_tests:
        try:
            framework, words = await _preview_words(parse_command(test.cmd), tree)
        except CommandRefusedError as error:
            framework, words = "", error.message
        if not test.must_pass:
            words = "it does not have to pass, so nothing is asked of it"
        costs, remains = _proof_costs(framework) if test.must_pass and framework else ("", "")
        proofs.append(CommandProof(test.name, test.cmd, framework, words, test.hidden, costs, remains))
    return tuple(proofs)


async def _preview_words(argv: tuple[str, ...], tree: TreeFiles | None) -> tuple[str, str]:
    from gatewright.ecosystems.port import NO_FILES
    from gatewright.ecosystems.registry import may_be_tests, recognise, why_unproven

    found = await recognise(argv, tree or NO_FILES)
    if found is not None:
        return found.name, _PROVED
    if tree is None and may_be_tests(argv):
        return "", "what it starts is known only with the repository (--repo)"
    return "", f"unproven: {await why_unproven(argv, tree or NO_FILES)}"


def _proof_costs(framework: str) -> tuple[str, str]:
    from gatewright.ecosystems.costs import COSTS

    known = COSTS[framework]
    return known.costs, known.remains


def proof_lines(proofs: tuple[CommandProof, ...]) -> list[str]:
    """Format a heading, then each command with its proof, its cost and its gaps."""
    from gatewright.ecosystems.costs import REMAINS, WHERE_TESTS_CHANGE

    lines = ["what a green run will have shown (docs/testing.md):"]
    for proof in proofs:
        kind = f" (hidden, {proof.framework})" if proof.hidden and proof.framework else " (hidden)" if proof.hidden else ""
        kind = kind or (f" ({proof.framework})" if proof.framework else "")
        lines.append(f"  {proof.name}{kind}: {proof.words}")
        lines += [f"    costs beside it: {proof.costs}"] if proof.costs else []
        lines += [f"    remains: {proof.remains}"] if proof.remains else []
    if any(proof.costs for proof in proofs):
        lines += [f"  {WHERE_TESTS_CHANGE}", f"  remains with each: {REMAINS}"]
    return lines
