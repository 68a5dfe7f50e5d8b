"""Overlays and copies must tell the same change, and plain git must agree: the same tree id from all three.

Random edits by real commands, on a baseline and then on the candidate that came of it: deletions, renames, files in the place
of folders and folders in the place of files, links, rights, names that need quoting everywhere.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatewright.sandbox import sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.workspace import Workspaces
from gatewright.workspace.removal import remove_tree
from tests.sandbox.places import Folder
from tests.series import lengths
from tests.workspace.conftest import LIMITS, Project

#: Few names, so that edits meet; files, folders and links of the fixture among them.
NAMES = st.sampled_from(
    [
        *(
            "README.md",
            "run.sh",
            "link",
            "only",
            "only/one.txt",
            "src",
            "src/app.py",
            "src/up",
            "src/deep",
            "src/deep/er",
            "data",
        ),
        *("src/deep/er/x.py", "data/zero", "odd", "odd/a b", "odd/-dash", "odd/new\nline", os.fsdecode(b"odd/\xff\xfe"), "new"),
        *("new/a", "new/a/b", "x", "run.sh/inside", "only/one.txt/inside", "-rf", " ", "*", "dangling", "link/inside"),
    ]
)
CONTENTS = st.sampled_from(["", "x\n", "read me\n", "alone\n", "x\n\n"])

EDITS = st.one_of(
    st.builds(lambda name, text: f"printf %s {shlex.quote(text)} >{quoted(name)}", NAMES, CONTENTS),
    st.builds(
        lambda name, text: f"mkdir -p $(dirname {quoted(name)}) && printf %s {shlex.quote(text)} >{quoted(name)}",
        NAMES,
        CONTENTS,
    ),
    st.builds(lambda name: f"rm -f {quoted(name)}", NAMES),
    st.builds(lambda name: f"rm -rf {quoted(name)}", NAMES),
    st.builds(lambda name: f"mkdir {quoted(name)}", NAMES),
    st.builds(lambda name: f"rm -rf {quoted(name)} && mkdir -p {quoted(name)} && printf f >{quoted(name)}/f", NAMES),
    st.builds(lambda name: f"rm -rf {quoted(name)} && printf f >{quoted(name)}", NAMES),
    st.builds(lambda one, other: f"mv -T {quoted(one)} {quoted(other)}", NAMES, NAMES),
    st.builds(lambda one, other: f"cp -a {quoted(one)} {quoted(other)}", NAMES, NAMES),
    st.builds(lambda one, other: f"ln -sfn {quoted(one)} {quoted(other)}", NAMES, NAMES),
    st.builds(lambda name, mode: f"chmod {mode} {quoted(name)}", NAMES, st.sampled_from(["+x", "-x", "600", "u=rwx,g=,o="])),
    st.builds(lambda name: f"touch -h {quoted(name)}", NAMES),
)
SCRIPTS = st.lists(EDITS, min_size=1, max_size=12)


def quoted(name: str) -> str:
    return shlex.quote(f"./{name}")


def script(edits: Sequence[str]) -> str:
    """All edits, whether they succeed or not, as the same command does everywhere."""
    return "\n".join(f"({edit}) 2>/dev/null || true" for edit in edits)


async def tree_after(workspaces: Workspaces, project: Project, tree: str | None, edits: Sequence[str]) -> str:
    async with workspaces.open(project.mirror, project.commit, tree) as workspace:
        completed = await BubblewrapSandbox().run(("sh", "-c", script(edits)), workspace=workspace, prefix=None, limits=LIMITS)
        assert completed.exit_code == 0
        return await project.mirror.write_tree(tree or project.commit, await workspace.changes())


def give_to_account(folder: Path) -> None:
    account = sandbox_account()
    if account.switched:
        subprocess.run(("chown", "-hR", f"{account.uid}:{account.gid}", folder), check=True)


async def tree_by_git(project: Project, folder: Path, start: str, edits: Sequence[str]) -> str:
    """What git says of its own checkout of ``start``, after the same commands ran in it."""
    remove_tree(folder)
    (folder / "files").mkdir(parents=True)
    git = ("git", f"--git-dir={project.repository.path}/.git", f"--work-tree={folder}/files")
    variables = {"PATH": os.environ["PATH"], "GIT_INDEX_FILE": f"{folder}/index", "GIT_CONFIG_GLOBAL": "/dev/null"}

    def run_git(*words: str) -> bytes:
        argv = (*git, *words)
        return subprocess.run(argv, env=variables, check=True, capture_output=True, cwd=folder / "files").stdout

    run_git("read-tree", start)
    run_git("checkout-index", "--all")
    give_to_account(folder / "files")
    place = Folder(folder / "files")
    await BubblewrapSandbox().run(("sh", "-c", script(edits)), workspace=place, prefix=None, limits=LIMITS)
    run_git("add", "--all", "--force")
    return run_git("write-tree").decode().strip()


@pytest.mark.parametrize("examples", lengths(4, 60))
async def test_overlays_copies_and_git_produce_the_same_tree(
    project: Project, overlays: Workspaces, copies: Workspaces, tmp_path: Path, examples: int
) -> None:
    async def compare(first: list[str], second: list[str]) -> None:
        trees = [await tree_after(kind, project, None, first) for kind in (overlays, copies)]
        assert {*trees, await tree_by_git(project, tmp_path / "git", project.commit, first)} == {trees[0]}
        again = [await tree_after(kind, project, trees[0], second) for kind in (overlays, copies)]
        assert {*again, await tree_by_git(project, tmp_path / "git", trees[0], second)} == {again[0]}

    loop = asyncio.get_running_loop()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(SCRIPTS, SCRIPTS)
    def same(first: list[str], second: list[str]) -> None:
        asyncio.run_coroutine_threadsafe(compare(first, second), loop).result(60)

    # Hypothesis calls its test in a thread, and the sandbox must be started from this one.
    await asyncio.to_thread(same)
