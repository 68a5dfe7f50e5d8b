"""What a contract's acceptance commands will have to show, told before any of them runs: docs/testing.md, for one contract.

The framework is looked for on the baseline; a change of what a command starts is the test runner's to find.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts import TaskContract
from gatewright.ecosystems.costs import COSTS, REMAINS, WHERE_TESTS_CHANGE
from gatewright.ecosystems.port import NO_FILES, TreeFiles
from gatewright.ecosystems.registry import may_be_tests, recognise, why_unproven
from gatewright.errors import CommandRefusedError, GitError
from gatewright.git.host.tree_at import tree_at
from gatewright.sandbox.argv import parse_command

_PROVED = "its tests are told one by one, a planted one has to fail, none of the baseline's may be lost"


class CommandProof(msgspec.Struct, frozen=True):
    """One acceptance command. ``framework`` is empty where nothing can be shown; ``words`` say what will be, or why not.

    ``costs`` and ``remains``: what that takes beside the command, and what it does not see; empty where nothing is shown.
    """

    name: str
    command: str
    framework: str
    words: str
    hidden: bool
    costs: str = ""
    remains: str = ""


async def preview(contract: TaskContract, repository: Path | None, baseline: str | None) -> tuple[CommandProof, ...]:
    """Each acceptance command, as far as the baseline in ``repository`` tells; without one, as far as the command does."""
    tree: TreeFiles | None = None
    if repository is not None:
        try:
            tree = tree_at(user_checkout(repository), baseline or contract.rollback.baseline_ref)
        except GitError:
            tree = None  # the gates say so
    told = []
    for test in contract.acceptance_tests:
        try:
            framework, words = await _preview_words(parse_command(test.cmd), tree)
        except CommandRefusedError as error:
            framework, words = "", error.message
        if not test.must_pass:
            words = "it does not have to pass, so nothing is asked of it"
        costs, remains = _beside(framework) if test.must_pass and framework else ("", "")
        told.append(CommandProof(test.name, test.cmd, framework, words, test.hidden, costs, remains))
    return tuple(told)


async def _preview_words(argv: tuple[str, ...], tree: TreeFiles | None) -> tuple[str, str]:
    found = await recognise(argv, tree or NO_FILES)
    if found is not None:
        return found.name, _PROVED
    if tree is None and may_be_tests(argv):
        return "", "what it starts can only be told on the repository (--repo)"
    return "", f"unproven: {await why_unproven(argv, tree or NO_FILES)}"


def _beside(framework: str) -> tuple[str, str]:
    known = COSTS[framework]
    return known.costs, known.remains


def proof_lines(proofs: tuple[CommandProof, ...]) -> list[str]:
    """For people: a heading, then for each command what it will have shown, at what cost, and what it will not."""
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
