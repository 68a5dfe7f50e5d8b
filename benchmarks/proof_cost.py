"""What proof adds to a suite: ``python -m benchmarks.proof_cost --clones DIR [--rounds 3] [--only WORD] [--way WAY]``.

Real suites (pytest, jest, ``go test``), each with a change of its sources alone, in an environment as `--env auto`
makes it. Five ways take turns, each round beginning with another one, so that all see the same machine:

- *alone*, the command in the sandbox and nothing else;
- *counted*, with its reporter;
- *known*, with its control, on a baseline that was tested before: every run but the first on a baseline;
- *first*, where nothing is remembered: the baseline's tests are collected besides;
- *medium*, as *known*, and mutants are tried.

Printed are medians with the least and the most, and the goals: *known* adds at most 10 % of the time alone and half a second,
and so does *first*; mutants take no more than the policy pack gives them. With ``--tests`` other commits, which change tests as
well: there the baseline's tests run on the candidate besides, which is neither control nor counting, and costs a suite.

Wall time means something only where the machine has nothing else to do: how busy others kept it while the command ran alone is
printed. Processor time means something everywhere; divided by the processors, it is the least that a way can take.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import Descendants, Machine
from benchmarks.real_commits.listing import RealCommit, read_list
from benchmarks.real_commits.trial import clone, git
from gatewright.app.environments.baseline_tree import baseline_tree
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.contracts.vocabulary import AcceptanceTest, MutationBounds
from gatewright.ecosystems.detection import builds
from gatewright.ecosystems.registry import recognise
from gatewright.git.mirror import Mirrors
from gatewright.git.mirror_tree import list_tree
from gatewright.sandbox import Completed, SandboxLimits, make_sandbox
from gatewright.sandbox.environments import Environments, ShownFolder
from gatewright.services.testrunner.build_cache import BuildCache
from gatewright.services.testrunner.bytecode_cache import BytecodeCache
from gatewright.services.testrunner.commands import AcceptanceCommand, CommandPlace, read_commands
from gatewright.services.testrunner.instrumented import THE_COMMAND, Instrumented
from gatewright.services.testrunner.proving import Proved, Prover
from gatewright.services.testrunner.tables import Tables
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces

#: Commits of the projects of ``real_commits/commits.toml``, and the command where it was another one then.
SOURCES = (
    ("mahmoud/boltons", "bba729b", None),
    ("tj/commander.js", "201d9324", "npx --no-install jest"),
    ("google/uuid", "53dda83", None),
)
WITH_TESTS = (
    ("mahmoud/boltons", "967864f897", None),
    ("tj/commander.js", "373f660f6f", None),
    ("google/uuid", "0e97ed3b53", None),
)
WAYS = ("alone", "counted", "known", "first", "medium")
SHARE, SECONDS = 0.1, 0.5
#: What stands for the digest of the environment, which does not change meanwhile.
ENVIRONMENT = "the environment of the benchmark"
console = Console(highlight=False, width=150)


@dataclass
class Times:
    """Seconds of each round: wall and processor; of medium also what the mutants took and might have taken."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    mutants: list[tuple[float, float, int]] = field(default_factory=list)
    #: How busy the machine was with other work, 0 to 1.
    others: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Suite:
    """One command on one candidate; ``known`` and ``first`` are what a test runner has that knows the baseline, or does not."""

    command: AcceptanceCommand
    place: CommandPlace
    workspaces: Workspaces
    known: Tables
    bytecode: BytecodeCache
    builds: BuildCache
    scratch: Path

    async def timed(self, way: str, measured: Times) -> None:
        """One round of one way, in a workspace of its own; with what compiling takes."""
        place, candidate = self.place, self.place.candidate
        begun, before = time.perf_counter(), Machine.now()
        with Descendants() as descendants:
            async with AsyncExitStack() as held:
                if way in {"first", "known", "medium"}:
                    asked = (candidate, (self.command.argv,), place.prefix, ENVIRONMENT, place.limits)
                    bytecode, cache = self.forgotten() if way == "first" else (self.bytecode, self.builds)
                    made, built = await bytecode.of(*asked), await held.enter_async_context(cache.use(*asked))
                    place = dataclasses.replace(place, compiled=made, built=built)
                completed, proved = await self.run(way, place)
        measured.wall.append(time.perf_counter() - begun)
        measured.processor.append(descendants.seconds)
        all_processors = measured.wall[-1] * (os.cpu_count() or 1)
        measured.others.append(max(0.0, Machine.now().share_since(before) - descendants.seconds / all_processors))
        words = shlex.join(self.command.argv)
        if completed.exit_code:
            raise SystemExit(f"{words}: it ended with {completed.exit_code}\n{completed.stdout.decode()[-2000:]}")
        if proved is not None and (proved.proof.unproven or not proved.proof.complete):
            raise SystemExit(f"{words}: {proved.proof.unproven or 'its report is not complete'}")
        if proved is not None and proved.proof.mutation is not None:
            sample, bounds = proved.proof.mutation, _bounds()
            allowed = max(bounds.time_share * completed.duration_seconds, bounds.least_seconds)
            measured.mutants.append((sample.seconds, allowed, sample.tried))

    async def run(self, way: str, place: CommandPlace) -> tuple[Completed, Proved | None]:
        """The command in one way, in a workspace of its own."""
        candidate, sandbox = place.candidate, make_sandbox("bubblewrap")
        async with self.workspaces.open(
            candidate.mirror, candidate.baseline, candidate.tree, compiled=place.compiled
        ) as workspace:
            place = dataclasses.replace(place, workspace=workspace)
            for argv in place.earlier:
                await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
            argv = self.command.argv
            if way == "alone":
                return await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits), None
            if way == "counted":
                tree = await list_tree(candidate.mirror, candidate.tree)
                framework = await recognise(argv, tree)
                assert framework is not None
                subject = Instrumented(argv, framework, sandbox, place.prefix, place.limits)
                return (await subject.run(workspace, tree, THE_COMMAND))[0], None
            proved = await self.proved(way, place)
            return proved.completed, proved

    def forgotten(self) -> tuple[BytecodeCache, BuildCache]:
        """Those of a test runner which has run nothing."""
        folder, sandbox = Path(tempfile.mkdtemp(dir=self.scratch)), make_sandbox("bubblewrap")
        return BytecodeCache(folder, sandbox, self.workspaces), BuildCache(folder / "builds", sandbox, self.workspaces)

    async def proved(self, way: str, place: CommandPlace) -> Proved:
        """The command with all that shows that it is alive."""
        tables = Tables(None) if way == "first" else self.known
        prover = Prover(make_sandbox("bubblewrap"), self.workspaces, tables)
        return await prover.run(self.command, place, lambda: None, _bounds() if way == "medium" else None)

    async def warm(self) -> None:
        """What a run before this one has left: the baseline's tests, and what was loaded."""
        candidate, place = self.place.candidate, self.place
        async with self.workspaces.open(candidate.mirror, candidate.baseline, candidate.tree) as workspace:
            for argv in place.earlier:
                await make_sandbox("bubblewrap").run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
            proved = await self.proved("known", dataclasses.replace(place, workspace=workspace))
        await self.bytecode.remember(self.command.argv, ENVIRONMENT, proved.proof.framework, proved.loaded)
        asked = (candidate, (self.command.argv,), place.prefix, ENVIRONMENT, place.limits)
        await self.bytecode.of(*asked)
        async with self.builds.use(*asked):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True, help="the folder with owner/name")
    parser.add_argument("--work", type=Path, help="where clones and environments are kept; by default a folder that is removed")
    parser.add_argument("--only", action="append", default=[], help="suites with this in their name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", action="store_true", help="commits that change tests as well")
    parser.add_argument("--way", action="append", choices=WAYS[1:], help="beside *alone*, these ways only")
    options = parser.parse_args()
    listed = {each.project: each for each in read_list()}
    table = Table("suite", "way", "wall (least, most)", "added", "goal", "reached", "processor", "others kept busy")
    with tempfile.TemporaryDirectory(prefix="gatewright-proof-") as folder:
        work = (options.work or Path(folder)).absolute()
        for project, commit, command in WITH_TESTS if options.tests else SOURCES:
            if options.only and not any(word in project for word in options.only):
                continue
            tests = (command,) if command else listed[project].tests
            subject = dataclasses.replace(listed[project], commit=commit, tests=tests)
            times = asyncio.run(_measure(subject, options.clones.absolute(), work, Path(folder) / project, options))
            for row in _rows(f"{project} {commit}", times):
                table.add_row(*row)
            table.add_section()
            sys.stdout.write(
                json.dumps({"suite": project, **{way: dataclasses.asdict(each) for way, each in times.items()}}) + "\n"
            )
    console.print(table)
    console.print(f"{os.cpu_count()} processors, {options.rounds} rounds; medians")


async def _measure(
    commit: RealCommit, clones: Path, work: Path, scratch: Path, options: argparse.Namespace
) -> Mapping[str, Times]:
    repository = clone(clones / commit.project, work / commit.project)
    git(repository, "checkout", "--quiet", "--force", "--detach", commit.commit)
    baseline = git(repository, "rev-parse", f"{commit.commit}~1")
    tree = await asyncio.to_thread(baseline_tree, repository, baseline)
    prefixes = await prepare_environments(work, tree, commit.tests, Installer(dict(os.environ)), console.print)
    sandbox = make_sandbox("bubblewrap")
    workspaces = Workspaces.for_sandbox(scratch / "workspaces", sandbox)
    mirror = await Mirrors(scratch / "mirrors").open(str(repository))
    for each in (git(repository, "rev-parse", commit.commit), baseline):
        await mirror.ensure(each)
    candidate = RebuiltCandidate(mirror, baseline, await mirror.tree_of(baseline), git(repository, "rev-parse", "HEAD^{tree}"))
    commands = read_commands(tuple(AcceptanceTest(name=f"t{n}", cmd=cmd, must_pass=True) for n, cmd in enumerate(commit.tests)))
    earlier = tuple(command.argv for command in commands[:-1] if builds(command.argv))
    prefix = Environments(tuple(map(ShownFolder, prefixes))) if prefixes else None
    async with workspaces.open(mirror, baseline, candidate.tree) as workspace:
        place = CommandPlace(candidate, workspace, prefix, SandboxLimits(wall_seconds=600), ENVIRONMENT, {}, earlier)
    bytecode = BytecodeCache(scratch / "bytecode", sandbox, workspaces)
    built = BuildCache(scratch / "builds", sandbox, workspaces)
    suite = Suite(commands[-1], place, workspaces, Tables(scratch / "tables"), bytecode, built, scratch)
    ways = tuple(way for way in WAYS if way == "alone" or not options.way or way in options.way)
    if {"known", "medium"} & set(ways):
        await suite.warm()
    times = {way: Times() for way in ways}
    for number in range(options.rounds):
        at = number % len(ways)
        for way in ways[at:] + ways[:at]:
            await suite.timed(way, times[way])
    return times


def _bounds() -> MutationBounds:
    packs = json.loads((Path(__file__).parent.parent / "policies/policy_packs.json").read_text())
    return msgspec.convert(packs["medium"]["mutation"], MutationBounds)


def _rows(suite: str, times: Mapping[str, Times]) -> list[tuple[str, ...]]:
    alone = statistics.median(times["alone"].wall)
    goal = alone * SHARE + SECONDS
    rows = []
    for way, each in times.items():
        added = statistics.median(each.wall) - alone
        judged = (
            (f"{added:+.2f} s", f"{goal:.2f} s", "yes" if added <= goal else "NO")
            if way in {"known", "first"}
            else ("", "", "")
        )
        if way == "medium":
            took, allowed, tried = each.mutants[-1]
            # One mutant may be under way when the time is over, and is ended.
            kept = all(spent <= most + SECONDS for spent, most, _ in each.mutants)
            judged = (f"{tried} mutants, {took:.1f} s", f"{allowed:.1f} s", "yes" if kept else "NO")
        rows.append(
            (
                suite if way == "alone" else "",
                way,
                f"{statistics.median(each.wall):.2f} s ({min(each.wall):.2f}, {max(each.wall):.2f})",
                *judged,
                f"{statistics.median(each.processor):.2f} s",
                f"{statistics.median(each.others):.0%}",
            )
        )
    return rows


if __name__ == "__main__":
    main()
