"""The diff gate against an oracle that is written from the definition alone, on random changes made by plain git.

The definition. A change is accepted when each changed path, on either side, keeps all of these:
1. it is ``src`` or lies below it, component by component;
2. it is a file or not there; where it is a file on both sides, it is executable on both or on neither, and a new one is not;
3. no component is ``.git`` in any case; none is ``.env`` in any case (credentials); its name is not ``test_*.py`` (tests);
4. where it is new: no other path of the resulting tree has, up to some depth, the same components but for their case, unless
   the path up to that depth was there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.git.mirror import Mirror, Mirrors
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.change.candidate import judge_patch
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.policies.load import load
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run
from tests.git.repositories import Repository
from tests.series import lengths

RUN = "run-0123456789"
Tree = Mapping[str, str]
BASELINE: Tree = {
    "README.md": "100644",
    "src/a.py": "100644",
    "src/b/c.py": "100644",
    "src/run.sh": "100755",
    "src/twin/x.py": "100644",
    "src/Twin/y.py": "100644",
    "src/test_a.py": "100644",
    "src2/a.py": "100644",
}
COMPONENTS = (
    "src",
    "SRC",
    "src2",
    "a.py",
    "A.py",
    "b",
    "B",
    "c.py",
    "twin",
    "Twin",
    "x.py",
    "test_b.py",
    ".env",
    ".ENV",
    "run.sh",
)
PATHS = st.one_of(
    st.sampled_from(sorted(BASELINE)), st.lists(st.sampled_from(COMPONENTS), min_size=1, max_size=3).map("/".join)
)
CHANGES = st.dictionaries(
    PATHS, st.sampled_from([None, "100644", "100644", "100644", "100755", "120000"]), min_size=1, max_size=5
)


class Ground:
    """One repository with the baseline, and the real gate."""

    def __init__(self, root: Path) -> None:
        (root / "home").mkdir()
        (root / "source").mkdir()
        self.repository = Repository(root / "source", root / "home")
        git = self.repository.git
        git("init", "--quiet", "--initial-branch=main")
        self.blob = git("hash-object", "-w", "--stdin", stdin=b"one\n").decode().strip()
        self.other = git("hash-object", "-w", "--stdin", stdin=b"two\n").decode().strip()
        lines = "".join(f"{mode} {self.blob}\t{path}\0" for path, mode in BASELINE.items())
        git("update-index", "-z", "--index-info", stdin=lines.encode())
        git("commit", "--quiet", "-m", "first")
        self.policies = load(policy_directory())
        self.contract = make_contract(RUN)
        self.runner = asyncio.Runner()
        self.mirror: Mirror = self.runner.run(Mirrors(root / "mirrors").open(self.repository.url))
        self.commit = self.runner.run(self.mirror.resolve("main"))
        self.tree = self.runner.run(self.mirror.tree_of(self.commit))

    def change(self, changes: Mapping[str, str | None]) -> tuple[Tree, bytes]:
        """What plain git makes of the changes: the resulting tree, and the patch."""
        git = self.repository.git
        git("read-tree", "HEAD")
        for path, mode in changes.items():
            entry = f"0 {'0' * 40}\t{path}\0" if mode is None else f"{mode} {self.other}\t{path}\0"
            git("update-index", "-z", "--replace", "--index-info", stdin=entry.encode())
        listed = git("ls-files", "--stage", "-z").decode().split("\0")[:-1]
        tree = {line.partition("\t")[2]: line[:6] + line[7:47] for line in listed}
        return tree, git("diff", "--cached", "--binary", "--no-renames", "HEAD")

    def accepts(self, patch: bytes) -> bool:
        context = make_context(RUN, "diff", self.policies).of_change(self.contract, self.mirror)
        run = make_open_run(RUN, self.contract, self.commit, self.tree)
        self.runner.run(judge_patch(context, SecretsCheck(), patch, run))
        return context.report.clean


def oracle(before: Tree, after: Tree) -> bool:
    """The definition at the top, and nothing else."""
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    for path in changed:
        parts = path.split("/")
        old, new = (tree[path][:6] if path in tree else None for tree in (before, after))
        if parts[0] != "src" or "120000" in {old, new} or (new is not None and new != (old or "100644")):
            return False
        if any(part.lower() in {".git", ".env"} for part in parts) or fnmatch(parts[-1], "test_*.py"):
            return False
        if path not in before and any(_collides(parts, depth, before, after) for depth in range(1, len(parts) + 1)):
            return False
    return True


def _collides(parts: list[str], depth: int, before: Tree, after: Tree) -> bool:
    mine = parts[:depth]
    if any(path.split("/")[:depth] == mine for path in before):
        return False
    others = ([*path.split("/")[:depth]] for path in after)
    return any(len(other) == depth and other != mine and _lower(other) == _lower(mine) for other in others)


def _lower(parts: list[str]) -> list[str]:
    return [part.lower() for part in parts]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(tmp_path_factory.mktemp("oracle"))
    yield made
    made.runner.close()


@pytest.mark.parametrize("examples", lengths(20, 500))
def test_the_gate_agrees_with_the_definition(ground: Ground, examples: int) -> None:
    before = {path: mode + ground.blob for path, mode in BASELINE.items()}

    @settings(max_examples=examples, deadline=None)
    @given(changes=CHANGES)
    def check(changes: Mapping[str, str | None]) -> None:
        after, patch = ground.change(changes)
        assert ground.accepts(patch) == oracle(before, after), (changes, patch)

    check()


def test_the_oracle_knows_both_answers(ground: Ground) -> None:
    """Were it always the same answer, agreeing with it would prove nothing."""
    before = {path: mode + ground.blob for path, mode in BASELINE.items()}
    good, patch = ground.change({"src/a.py": "100644", "src/new/d.py": "100644"})
    assert oracle(before, good)
    assert ground.accepts(patch)
    for bad in (
        {"README.md": "100644"},
        {"src/A.py": "100644"},
        {"src/a.py": "100755"},
        {"src/.ENV": "100644"},
        {"src/B/c.py": "100644"},
    ):
        after, patch = ground.change(bad)
        assert not oracle(before, after), bad
        assert not ground.accepts(patch), bad
