"""Changes and orders that throw things away without having said so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import stored_digest, uri_of
from gatewright.contracts import GateReport, TaskContract
from gatewright.contracts.task_contract import Inputs, Rollback
from gatewright.contracts.vocabulary import (
    MOST_LOST,
    AcceptanceTest,
    Artifact,
    BlastRadius,
    DestructiveStatement,
    Executor,
    Scope,
)
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.gates.change.destructive import judge_destructive
from tests.attacks.real_gate import RUN, RealGate, codes, evidence, open_gate
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context
from tests.git.repositories import MakeRepository

MANY = {f"src/many/{number:03}.py": f"value = {number}\n".encode() for number in range(30)}
FILES = {
    "src/app.py": b"one = 1\n",
    **MANY,
    **{f"src/old/{number}.py": f"old = {number}\n".encode() for number in range(8)},
    "src/old/sub/deep.py": b"deep = 1\n",
}
DRY_RUN = b"would remove src/old (9 files)\n"
STATEMENT = DestructiveStatement(
    operation="delete files",
    dry_run="dry-run",
    blast_radius=BlastRadius(summary="the old modules are gone", paths=("src/old",), max_deletions=9),
    backup="refs/tags/before-clean-up",
)


def inputs(data: bytes = DRY_RUN) -> Inputs:
    uri = uri_of(data)
    return Inputs(spec="clean up", artifacts=(Artifact(name="dry-run", uri=uri, sha256=stored_digest(uri)),))


def stated(*statements: DestructiveStatement) -> Scope:
    return Scope(destructive=tuple(statement.operation for statement in statements), destructive_statements=statements)


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[RealGate]]:
    """The gate of a run whose contract has the given fields."""
    return lambda **changes: open_gate(make_repository(files=FILES), tmp_path, **changes)


Opened = Callable[..., AbstractAsyncContextManager[RealGate]]


async def test_deleting_more_files_than_a_few_needs_a_statement(opened: Opened) -> None:
    async with opened() as gate:
        patch = gate.patch(dict.fromkeys(list(MANY)[: MOST_LOST + 1]))
        report = await gate.diff(await gate.worked(patch))
        assert codes(report) == ["destructive_unstated"]
        assert evidence(report)["files_lost"] == str(MOST_LOST + 1)


async def test_deleting_a_few_files_needs_none(opened: Opened) -> None:
    async with opened() as gate:
        patch = gate.patch(dict.fromkeys(list(MANY)[:MOST_LOST]))
        assert codes(await gate.diff(await gate.worked(patch))) == []


async def test_emptying_files_is_deleting_them(opened: Opened) -> None:
    async with opened() as gate:
        patch = gate.patch(dict.fromkeys(MANY, b""))
        assert codes(await gate.diff(await gate.worked(patch))) == ["destructive_unstated"]


async def test_a_whole_directory_needs_a_statement_even_when_it_is_small(opened: Opened) -> None:
    async with opened() as gate:
        report = await gate.diff(await gate.worked(gate.patch(gone("src/old"))))
        assert codes(report) == ["destructive_unstated"]
        assert [violation.path for violation in report.violations] == ["src/old"]


async def test_a_directory_left_with_an_empty_file_counts_as_deleted(opened: Opened) -> None:
    async with opened() as gate:
        report = await gate.diff(await gate.worked(gate.patch({**gone("src/old"), "src/old/.keep": b""})))
        assert codes(report) == ["destructive_unstated"]


async def test_moving_a_directory_loses_nothing(opened: Opened) -> None:
    async with opened() as gate:
        moved = {name.replace("src/old", "src/new"): content for name, content in FILES.items() if "/old/" in name}
        report = await gate.diff(await gate.worked(gate.patch({**gone("src/old"), **moved})))
        assert codes(report) == []
        assert evidence(report)["files_lost"] == "0"


async def test_a_stated_loss_passes_and_is_named(opened: Opened) -> None:
    async with opened(scope=stated(STATEMENT), inputs=inputs()) as gate:
        report = await gate.diff(await gate.worked(gate.patch(gone("src/old"))))
        assert codes(report) == []
        assert evidence(report)["files_lost"] == "9"


async def test_losing_more_than_was_stated_is_refused(opened: Opened) -> None:
    small = replace(STATEMENT, blast_radius=replace(STATEMENT.blast_radius, max_deletions=8))
    async with opened(scope=stated(small), inputs=inputs()) as gate:
        report = await gate.diff(await gate.worked(gate.patch(gone("src/old"))))
        assert codes(report) == ["blast_radius_exceeded"]


async def test_a_statement_about_one_place_does_not_cover_another(opened: Opened) -> None:
    async with opened(scope=stated(STATEMENT), inputs=inputs()) as gate:
        report = await gate.diff(await gate.worked(gate.patch(gone("src/many"))))
        assert codes(report) == ["destructive_unstated"]


async def test_the_integrated_gate_counts_the_losses_of_all_workers_together(opened: Opened) -> None:
    async with opened() as gate:
        patch = gate.patch(dict.fromkeys(MANY))
        tree = await gate.compose(patch)
        assert codes(await gate.integrated(await gate.worked(patch), tree)) == ["destructive_unstated"]


def classify(argv: tuple[str, ...]) -> frozenset[str]:
    return frozenset({"destructive"} if argv[:2] == ("git", "clean") else {"local-write"})


def judged(**changes: object) -> list[str]:
    context = make_context(RUN, "policy")
    contract: TaskContract = make_contract(RUN, **{"inputs": inputs(), **changes})
    judge_destructive(context, contract, classify)
    return [violation.code for violation in context.report.violations]


CLEAN = "git clean -fdx src"
CLEANING = replace(STATEMENT, operation=CLEAN)


@pytest.mark.parametrize(
    "changes",
    [
        {"executor": Executor(kind="command", commands=(CLEAN,))},
        {"acceptance_tests": (AcceptanceTest(name="clean", cmd=CLEAN, must_pass=True),)},
        {"executor": Executor(kind="command", commands=(CLEAN,)), "scope": Scope(destructive=(CLEAN,))},
        {
            "executor": Executor(kind="command", commands=(CLEAN,)),
            "scope": stated(replace(CLEANING, operation="git clean -n src")),
        },
        {"scope": Scope(destructive_statements=(STATEMENT,))},
        {"scope": stated(STATEMENT, replace(STATEMENT, backup="another"))},
        {"scope": stated(replace(STATEMENT, dry_run="never captured"))},
        {"scope": stated(STATEMENT), "inputs": inputs(b"")},
        {"scope": stated(replace(STATEMENT, backup=" "))},
        {"scope": stated(replace(STATEMENT, blast_radius=replace(STATEMENT.blast_radius, summary="\n")))},
        {"scope": stated(replace(STATEMENT, blast_radius=replace(STATEMENT.blast_radius, paths=("docs",))))},
        {"scope": stated(replace(STATEMENT, blast_radius=replace(STATEMENT.blast_radius, paths=("src/..",))))},
    ],
    ids=[
        *("command", "acceptance_command", "listed_only", "statement_about_another", "not_listed", "two_statements"),
        *("no_dry_run", "empty_dry_run", "no_backup", "no_radius", "radius_outside", "radius_invalid"),
    ],
)
def test_what_is_destructive_and_not_fully_stated_is_refused(changes: dict[str, object]) -> None:
    assert set(judged(**changes)) == {"destructive_unstated"}


def test_a_fully_stated_command_is_allowed_by_this_gate() -> None:
    assert judged(executor=Executor(kind="command", commands=(CLEAN,)), scope=stated(CLEANING)) == []


async def test_a_contract_without_its_dry_run_is_refused_at_the_door(opened: Opened) -> None:
    """Through the whole intake, as a contract from outside meets it."""
    async with opened(rollback=Rollback(strategy="worktree_drop", baseline_ref="HEAD")) as gate:
        bare = replace(gate.contract, scope=stated(STATEMENT))
        assert "destructive_unstated" in codes(await intake(gate, bare))
        await gate.bus.put_artifact(DRY_RUN)
        assert "destructive_unstated" not in codes(await intake(gate, replace(bare, inputs=inputs())))


async def intake(gate: RealGate, contract: TaskContract) -> GateReport:
    return (await gate.gates.answer(q.IntakeCheck(RUN, contract))).report


BODY = b"# Copyright of a person\n\n" + b"".join(b"def function_%d(): return %d\n" % (n, n) for n in range(30))
STUBS: dict[str, bytes] = {
    "one newline": b"\n",
    "white space": b" \t\n\n  \r\n",
    "one byte": b"x",
    "a byte order mark": b"\xef\xbb\xbf",
    "a placeholder": b"pass\n",
    "a notice": b"raise NotImplementedError('this module was removed')\n",
    "its first comment": b"# Copyright of a person\n",
    "comments as long as it was": b"# nothing is left of this module, see the history\n" * 18,
    "an empty block": b"/*\n * removed\n */\n",
}


@pytest.mark.parametrize("stub", STUBS)
async def test_blanking_many_files_is_deleting_them(stub: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    files = {f"src/many/{number:03}.py": BODY + b"last = %d\n" % number for number in range(40)}
    async with open_gate(make_repository(files={**files, "src/many/kept.py": BODY}), tmp_path) as gate:
        report = await gate.diff(await gate.worked(gate.patch(dict.fromkeys(files, STUBS[stub]))))
        assert codes(report) == ["destructive_unstated"]
        assert evidence(report)["files_lost"] == "40"


async def test_blanking_a_whole_directory_is_losing_it(opened: Opened) -> None:
    async with opened() as gate:
        report = await gate.diff(await gate.worked(gate.patch(dict.fromkeys(gone("src/old"), b"\n"))))
        assert [violation.path for violation in report.violations] == ["src/old"]


async def test_one_text_in_the_place_of_many_files_is_deleting_them(opened: Opened) -> None:
    async with opened() as gate:
        patch = gate.patch(dict.fromkeys(MANY, b"print('every file of this package says the same from now on')\n" * 20))
        assert codes(await gate.diff(await gate.worked(patch))) == ["destructive_unstated"]


async def test_a_new_file_accounts_for_at_most_one_lost_file(make_repository: MakeRepository, tmp_path: Path) -> None:
    files = {f"src/many/{number:03}/a.py": BODY + b"last = %d\n" % number for number in range(40)}
    async with open_gate(make_repository(files=files), tmp_path) as gate:
        for kept in (BODY, b"nothing_of_it = 1\n" * 40):
            patch = gate.patch({**dict.fromkeys(files), "src/new/a.py": kept})
            assert codes(await gate.diff(await gate.worked(patch))) == ["destructive_unstated"]
            gate.repository.git("reset", "--quiet", "--hard")


async def test_editing_and_shortening_many_files_is_not_deleting_them(make_repository: MakeRepository, tmp_path: Path) -> None:
    files = {f"src/many/{number:03}.py": BODY + b"last = %d\n" % number for number in range(40)}
    async with open_gate(make_repository(files=files), tmp_path) as gate:
        half = {name: content[: len(content) // 2] for name, content in files.items()}
        report = await gate.diff(await gate.worked(gate.patch(half)))
        assert (codes(report), evidence(report)["files_lost"]) == ([], "0")


async def test_stripping_comments_and_changing_numbers_is_not_deleting(make_repository: MakeRepository, tmp_path: Path) -> None:
    commented = {f"src/{number}.py": b"# words and words and words\n" * 50 + b"value = %d\n" % number for number in range(30)}
    counters = {f"src/counter{number}": b"%d\n" % (10 + number) for number in range(30)}
    async with open_gate(make_repository(files={**commented, **counters}), tmp_path) as gate:
        bare = {name: content.rpartition(b"words\n")[2] for name, content in commented.items()}
        patch = gate.patch({**bare, **dict.fromkeys(counters, b"9\n")})
        assert codes(await gate.diff(await gate.worked(patch))) == []


async def test_overwriting_each_file_looks_like_an_edit(opened: Opened) -> None:
    """What is not stopped: every file gets other lines, of its own, in the place of its content."""
    async with opened() as gate:
        patch = gate.patch({name: b"other = %d\n" % number for number, name in enumerate(MANY)})
        assert codes(await gate.diff(await gate.worked(patch))) == []


def gone(directory: str) -> dict[str, bytes | None]:
    return {name: None for name in FILES if name.startswith(f"{directory}/")}
