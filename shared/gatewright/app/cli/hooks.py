"""``hooks``: git hooks for people, with the active contract and the hook files.

The contract is in the common git directory, where no commit can change it. Hooks are local and can be bypassed
(``--no-verify``). They show early what the gatekeeper decides later in any case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.app.cli.schemas import read_submittable
from gatewright.errors import GitError, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.dry_run import DryRunAnswer

hooks = typer.Typer(no_args_is_help=True, help="Install git hooks that judge commits and pushes.")
NAMES = ("pre-commit", "pre-push")
MARK = "# gatewright hook"
#: Suffix of an earlier hook. It runs first, and is restored when the hook is removed.
BEFORE = ".before-gatewright"
_NOTHING = frozenset({"0" * 40, "0" * 64})
_SCRIPT = """#!/bin/sh
{mark}: judges the change against the active contract. `gatewright hooks uninstall` takes it away.
input=
[ {name} = pre-push ] && input=$(cat)
before="$0{before}"
if [ -x "$before" ]; then
    printf '%s\\n' "$input" | "$before" "$@" || exit 1
fi
python={python}
if [ ! -x "$python" ]; then
    echo "gatewright: $python is gone, so the change cannot be judged: run 'gatewright hooks install' again" >&2
    exit 1
fi
printf '%s\\n' "$input" | "$python" -P -m gatewright.app.cli.main hooks run {name}
"""


def register(app: typer.Typer) -> None:
    hooks.command()(install)
    hooks.command()(uninstall)
    hooks.command()(status)
    hooks.command(hidden=True)(run)
    app.add_typer(hooks, name="hooks")


@reported
def install(
    *,
    contract: Annotated[
        str | None, typer.Option(metavar="FILE", help="Contract to enforce in this repository from now on")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Start of the change", show_default="baseline of the contract")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Keep existing hooks and run them first")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Install a pre-commit and a pre-push hook in this repository."""
    found = find_hooks(Path.cwd())
    baseline = install_hooks(found, contract, base, force=force)
    if json_output:
        emit({"hooks": str(found.folder), "contract": str(found.contract), "baseline": baseline})
        return
    write_line(f"installed {' and '.join(NAMES)} in {printable(str(found.folder))}")
    write_line(f"  the contract is {printable(str(found.contract))}, its change begins at {baseline}")
    write_line("  they can be bypassed with --no-verify; the gatekeeper judges again in any case")


@reported
def uninstall(json_output: JsonOutput = False) -> None:
    """Remove the hooks and restore earlier ones."""
    removed = uninstall_hooks(find_hooks(Path.cwd()))
    if json_output:
        emit({"removed": removed})
    else:
        write_line(f"removed {', '.join(removed)}" if removed else "there were no hooks of ours")


@reported
def status(json_output: JsonOutput = False) -> None:
    """Show the installed hooks and the active contract."""
    found = find_hooks(Path.cwd())
    states = {name: found.state(name) for name in NAMES}
    baseline = found.baseline.read_text().strip() if found.baseline.exists() else None
    if json_output:
        emit({"hooks": states, "contract": str(found.contract) if baseline else None, "baseline": baseline})
        return
    for name, state in states.items():
        write_line(f"{name:<12}{state}")
    write_line(f"contract    {printable(str(found.contract))} from {baseline}" if baseline else "contract    none is active")


@reported
def run(name: Annotated[str, typer.Argument(metavar="HOOK")]) -> None:
    """Run a hook; git calls this command."""
    from gatewright.app.cli.dry_run import verdict_lines

    found = find_hooks(Path.cwd())
    pushed = name == "pre-push"
    answers = judge_pushed(found, sys.stdin) if pushed else [("commit", judge_staged(found))]
    for what, answer in answers:
        if not answer.passed:
            write_line(printable(f"gatewright: this {what} does not keep to the active contract"), stream=sys.stderr)
            for line in verdict_lines(answer):
                write_line(printable(line), stream=sys.stderr)
    raise typer.Exit(Exit.GOOD if all(answer.passed for _, answer in answers) else Exit.FAILED)


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one repository. ``start``: a folder in it. ``folder``: hook folder of git. ``active``: the contract."""

    start: Path
    folder: Path
    active: Path

    @property
    def contract(self) -> Path:
        return self.active / "contract.json"

    @property
    def baseline(self) -> Path:
        return self.active / "baseline"

    def state(self, name: str) -> str:
        """Return ``installed``, ``foreign`` (of another tool) or ``absent``."""
        hook = self.folder / name
        if not hook.exists() and not hook.is_symlink():
            return "absent"
        return "installed" if _is_ours(hook) else "foreign"


def find_hooks(start: Path) -> Hooks:
    """Find the hooks of the repository around ``start``.

    Raises:
        GitError: ``not_a_repository``; ``repository_leads_elsewhere`` for a ``.git`` that names another repository.
    """
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.git.host.local_repository import find_repository

    checkout = user_checkout(start)
    hooks = Hooks(start, checkout.hooks_folder(), checkout.folders.common / "gatewright")
    top = next((folder for folder in (start, *start.parents) if os.path.lexists(folder / ".git")), None)
    if top is not None:
        find_repository(str(top))
    return hooks


def install_hooks(hooks: Hooks, contract: str | None, base: str | None, *, force: bool) -> str:
    """Install the hooks and activate ``contract``; return the commit at which its change begins.

    ``base`` is resolved to a commit now: HEAD means the current one.

    Raises:
        MalformedError: ``no_active_contract`` or ``hook_exists``.
        GitError: ``repository_has_links``.
    """
    import shlex

    from gatewright.app.cli.dry_run import read_contract
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.contracts import RunRequest
    from gatewright.evidence.signing.durable_files import put_file

    if contract is None and not hooks.contract.exists():
        raise MalformedError("name the contract of this repository: --contract FILE", code="no_active_contract")
    foreign = [name for name in NAMES if hooks.state(name) == "foreign"]
    if foreign and not force:
        raise MalformedError(
            f"{hooks.folder / foreign[0]} is not Gatewright's; with --force it stays and runs first", code="hook_exists"
        )
    if contract is not None:
        document = read_submittable(contract)
        start = base or (document.baseline_ref if isinstance(document, RunRequest) else document.rollback.baseline_ref)
        commit = user_checkout(hooks.start).resolve(start)
        if hooks.active.is_symlink():
            raise GitError(f"{hooks.active} is a link; remove it", code="repository_has_links")
        hooks.active.mkdir(parents=True, exist_ok=True)
        # The new file replaces any existing entry. A link is replaced, never followed.
        put_file(hooks.contract, read_contract(document), mode=0o644)
        put_file(hooks.baseline, f"{commit}\n".encode(), mode=0o644)
    hooks.folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        hook = hooks.folder / name
        if hooks.state(name) == "foreign":
            hook.rename(hook.with_name(name + BEFORE))
        script = _SCRIPT.format(mark=MARK, name=name, before=BEFORE, python=shlex.quote(sys.executable))
        put_file(hook, script.encode(), mode=0o755)
    return hooks.baseline.read_text().strip()


def uninstall_hooks(hooks: Hooks) -> list[str]:
    """Remove the hooks and restore earlier ones; return the names of the removed hooks."""
    removed = []
    for name in NAMES:
        hook = hooks.folder / name
        if hooks.state(name) != "installed":
            continue
        hook.unlink()
        removed.append(name)
        before = hook.with_name(name + BEFORE)
        if before.exists():
            before.rename(hook)
    return removed


def judge_staged(hooks: Hooks) -> DryRunAnswer:
    """Judge the change to commit: the index that git names to the hook. An empty commit passes.

    Raises MalformedError, GitError.
    """
    from gatewright.app.cli.dry_run import ask_gates, locate_change
    from gatewright.app.cli.settings import hook_index

    with locate_change(hooks.start, _baseline(hooks), head="HEAD", index=hook_index(), use_index=True) as change:
        return ask_gates(hooks.contract.read_bytes(), change, judge_policy=False, empty_passes=True)


def judge_pushed(hooks: Hooks, lines: Iterable[str]) -> list[tuple[str, DryRunAnswer]]:
    """Judge each ref of a push, as git lists them to the hook. A deletion is skipped.

    A ref without a change since the baseline passes, for example a new tag on it.
    """
    from gatewright.app.cli.dry_run import ask_gates, locate_change

    answers = []
    for line in lines:
        words = line.split()
        if len(words) != 4 or words[1] in _NOTHING:
            continue
        with locate_change(hooks.start, _baseline(hooks), head=words[1], index=None, use_index=False) as change:
            answer = ask_gates(hooks.contract.read_bytes(), change, judge_policy=False, empty_passes=True)
            answers.append((words[2], answer))
    return answers


def _baseline(hooks: Hooks) -> str:
    if not hooks.contract.exists() or not hooks.baseline.exists():
        raise MalformedError("no contract is active here: gatewright hooks install --contract FILE", code="no_active_contract")
    return hooks.baseline.read_text().strip()


def _is_ours(hook: Path) -> bool:
    try:
        return MARK in hook.read_text(errors="replace")
    except OSError:
        return False
