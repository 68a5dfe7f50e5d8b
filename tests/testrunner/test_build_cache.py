"""What Go built of the baseline: made by its compiler alone, seen by every run, and changed by none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.sandbox import Additions, SandboxLimits, make_sandbox
from gatewright.sandbox.environments import Environments, ShownFolder
from gatewright.services.testrunner.build_cache import BuildCache
from gatewright.services.testrunner.commands import BuiltBefore
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces
from tests.ecosystems.suites import Suite, proof_of
from tests.ecosystems.test_go import TOOLCHAIN, needs_go
from tests.handler_fixture import BrokenSandbox, HandlerFixture, make_handler_fixture

ARGV = ("go", "test", "-race", "-run", "Adds", "./...")
LIMITS = SandboxLimits(wall_seconds=60)
SOURCE = b"package demo\n\nfunc Add(one, other int) int { return one + other }\n"
MANY = b"".join(b"func F%d() int { return %d }\n" % (number, number) for number in range(8000))
FILES = {"go.mod": b"module example.org/demo\n\ngo 1.18\n", "add.go": SOURCE}
#: Stands for Go: notes how it was started, and "compiles" into its cache.
COMPILER = """#!/bin/sh
cache=$HOME/.cache/go-build
case $1 in
list) printf '%s\\n' {listed} ;;
test) mkdir -p "$cache/00"; echo "$*" > "$cache/00/built-a"; {besides} ;;
esac
"""


@dataclass
class Kept:
    """A repository, a stand-in for Go, and what is kept of the baseline."""

    fixture: HandlerFixture
    prefix: Environments
    workspaces: Workspaces

    async def candidate(self) -> RebuiltCandidate:
        mirror = await self.fixture.mirror()
        tree = await mirror.tree_of(self.fixture.baseline)
        return RebuiltCandidate(mirror, self.fixture.baseline, tree, tree)

    @asynccontextmanager
    async def use(self, *, argv: tuple[str, ...] = ARGV, broken: bool = False) -> AsyncIterator[tuple[BuiltBefore, ...]]:
        """``broken``: nothing can be made, only what is kept can be used."""
        sandbox = BrokenSandbox() if broken else make_sandbox("bubblewrap")
        cache = BuildCache(self.fixture.state / "builds", sandbox, self.workspaces)
        async with cache.use(await self.candidate(), (argv,), self.prefix, "an environment", LIMITS) as built:
            yield built

    async def shell(self, built: tuple[BuiltBefore, ...], script: str) -> str:
        """What ``script`` prints in a run of its own."""
        candidate = await self.candidate()
        async with self.workspaces.open(candidate.mirror, candidate.baseline) as workspace:
            folder = workspace.task / "additions"
            folder.mkdir(mode=0o755)
            additions = Additions(folder, caches=tuple(each.for_run(workspace) for each in built))
            completed = await make_sandbox("bubblewrap").run(
                ("sh", "-c", f"cd ~/.cache/go-build && {script}"),
                workspace=workspace,
                prefix=self.prefix,
                limits=LIMITS,
                additions=additions,
            )
        return (completed.stdout + completed.stderr).decode()


def make_kept(folder: Path, *, listed: str = "/elsewhere/module", besides: str = ":") -> Kept:
    folder.chmod(0o755)
    toolchain = folder / "toolchain"
    (toolchain / "bin").mkdir(parents=True)
    program = toolchain / "bin/go"
    program.write_text(COMPILER.format(listed=listed, besides=besides))
    program.chmod(0o755)
    fixture = make_handler_fixture(folder, FILES)
    return Kept(fixture, Environments((ShownFolder(toolchain),)), Workspaces(fixture.state / "workspaces"))


async def test_no_run_finds_what_another_wrote_into_what_was_built(tmp_path: Path) -> None:
    kept = make_kept(tmp_path)
    attack = "echo false > 00/built-a && echo planted > 00/planted-a && rm -rf 01 && mkdir 01 && cat 00/*"
    async with kept.use() as built:
        before = sorted((each.name, each.stat().st_ino) for each in built[0].lower.rglob("*"))
        assert await kept.shell(built, attack) == "false\nplanted\n"  # it is its own to write
        told = await kept.shell(built, "ls * && cat 00/*")
        assert told == "built-a\ntest -race -exec=true -count=1 ./...\n"  # neither -run nor another name of a test
        assert sorted((each.name, each.stat().st_ino) for each in built[0].lower.rglob("*")) == before


async def test_builds_are_kept_until_modules_or_many_sources_change(tmp_path: Path) -> None:
    kept = make_kept(tmp_path)
    async with kept.use() as built:
        place = built[0].lower
    kept.fixture.baseline = kept.fixture.repository.commit({"add.go": SOURCE + b"\n"}, "a little")
    async with kept.use(broken=True) as built:
        assert [each.lower for each in built] == [place]
    for number, changed in enumerate(({"go.mod": FILES["go.mod"] + b"\n"}, {"many.go": SOURCE + MANY})):
        kept.fixture.baseline = kept.fixture.repository.commit(changed, "much")
        with pytest.raises(Exception, match="user namespaces are forbidden here"):
            async with kept.use(broken=True):
                pass
        async with kept.use() as built:
            assert len(built) == 1, number
    record = built[0].lower.parent / "record.json"
    record.write_bytes(record.read_bytes().replace(b'"made_at":17', b'"made_at":16'))
    with pytest.raises(Exception, match="user namespaces are forbidden here"):
        async with kept.use(broken=True):  # too long ago
            pass


@pytest.mark.parametrize(
    "made",
    [
        {"listed": "/workspace/native"},  # C or assembler, which includes what no digest has
        {"besides": "ln -s /workspace $cache/00/link-d"},
        {"besides": "mkfifo $cache/00/pipe-d"},
    ],
)
async def test_untrusted_builds_are_neither_kept_nor_made_again(tmp_path: Path, made: dict[str, str]) -> None:
    kept = make_kept(tmp_path, **made)
    async with kept.use() as built:
        assert built == ()
    async with kept.use(broken=True) as built:
        assert built == ()


@pytest.mark.parametrize(
    "argv", [("./go", "test"), ("go", "test", "-exec=./run"), ("go", "test", "-C", "sub"), ("go", "vet"), ("pytest",)]
)
async def test_nothing_is_built_for_a_command_that_starts_another_program(tmp_path: Path, argv: tuple[str, ...]) -> None:
    async with make_kept(tmp_path).use(argv=argv, broken=True) as built:
        assert built == ()


async def test_what_is_in_use_is_not_replaced(tmp_path: Path) -> None:
    kept = make_kept(tmp_path)
    async with kept.use() as built:
        inode = built[0].lower.stat().st_ino
        kept.fixture.baseline = kept.fixture.repository.commit({"many.go": SOURCE + MANY}, "much")
        async with kept.use() as again:
            assert again[0].lower.stat().st_ino == inode
    async with kept.use() as again:
        assert again[0].lower.stat().st_ino != inode


TESTS = (
    b'package demo\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
)
#: Puts what was compiled of the package in the place of everything else of the cache, and says so.
POISONS = b"""package demo

import (
	"fmt"
	"os"
	"path/filepath"
)

func init() {
	home, _ := os.UserHomeDir()
	kept, _ := filepath.Glob(home + "/.cache/go-build/*/*")
	written := 0
	for _, each := range kept {
		if os.WriteFile(each, []byte("false"), 0o644) == nil {
			written++
		}
	}
	fmt.Println("written over:", written > 100)
}
"""
#: Leaves a mark where it is started.
RUNS = b"""package runs

import (
	"os"
	"testing"
)

func init() { os.WriteFile(os.Getenv("HOME")+"/.cache/go-build/ran-a", nil, 0o644) }

func TestRuns(t *testing.T) {}
"""
ONLY_HERE = b"//go:build linux\n\npackage demo\n\nfunc init() { Base = 0 }\n"
ONLY_ELSEWHERE = ONLY_HERE.replace(b"linux", b"plan9")


@pytest.mark.long
@needs_go
async def test_real_suites_begin_with_what_was_built_and_prove_what_they_did(tmp_path: Path) -> None:
    """A change that writes over the cache; one that is wrong after it; one that differs in a constraint of the same length."""
    files = {
        **FILES,
        "add.go": SOURCE.replace(b"one + other }", b"one + other + Base }") + b"\nvar Base = 0\n",
        "here.go": ONLY_HERE,
        "add_test.go": TESTS,
        "runs/runs_test.go": RUNS,
    }
    suite = Suite(tmp_path, files, TOOLCHAIN)
    command = "go test -v ./..."
    report = await suite.tested({"poison.go": POISONS}, command)
    assert report.status == "PASS", suite.printed(report)
    assert "written over: true" in suite.printed(report)
    for changed, status in (
        ({"add.go": files["add.go"].replace(b"one + other +", b"one - other +")}, "FAIL"),
        ({"add.go": files["add.go"].replace(b"Base = 0\n", b"Base = 1\n")}, "PASS"),
        ({"add.go": files["add.go"].replace(b"Base = 0\n", b"Base = 1\n"), "here.go": ONLY_ELSEWHERE}, "FAIL"),
        ({"note.txt": b"a change without a source: what ran before is run again\n"}, "PASS"),
    ):
        report = await suite.tested(changed, command)
        printed, proof = suite.printed(report), proof_of(report)
        assert report.status == status, (changed, printed)
        assert "(cached)" not in printed
        if status == "PASS":
            assert proof.counts is not None
            assert (proof.counts.passed, proof.unproven) == (2, "")
            assert proof.control is not None
            assert (proof.control.failing_outcome, proof.control.passing_outcome) == ("failed", "passed")
    kept = list((suite.fixture.state / "testrunner/builds").glob("*/files"))
    assert len(kept) == 1
    assert not (kept[0] / "ran-a").exists()  # no test was started when it was made
    assert all(not each.is_file() or each.read_bytes() != b"false" for each in kept[0].rglob("*"))
    assert all(each.stat().st_mtime > 4e9 for each in kept[0].glob("*/*-d"))
