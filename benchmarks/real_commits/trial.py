"""One change through `gatewright run`, as a stranger types it: at most twice, the second time by the options that were printed.

The repository is a clone of its own, checked out at the parent of the commit. What may change are the paths that the commit
changes, those below the project's tests as tests; other protected paths are opened only by options of the printed command.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real_commits.listing import RealCommit, SourceEdit

TRIES = 2


@dataclass(frozen=True)
class Verdict:
    """How a change ended: after how many tries, by which code, on which tree, and what it took."""

    status: str
    code: str
    message: str
    tries: int
    tree: str
    run_id: str
    seconds: float
    processor: float

    @property
    def landed(self) -> bool:
        return self.status == "SUCCESS"


def git(folder: Path, *words: str) -> str:
    """Return git's output without its last line end. Raises CalledProcessError."""
    finished = subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, text=True, errors="surrogateescape"
    )
    return finished.stdout.strip("\n")


def clone(source: Path, target: Path) -> Path:
    """A clone of ``source`` at ``target``, unless it is there."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(source), str(target)], check=True)
        git(target, "config", "user.name", "A stranger")
        git(target, "config", "user.email", "stranger@localhost")
    return target


def make_change(repository: Path, commit: RealCommit, edit: SourceEdit | None, patch: Path) -> tuple[str, ...]:
    """Write the commit's change, with ``edit`` on top, to ``patch``; check out its parent. The paths that it touches."""
    git(repository, "checkout", "--quiet", "--force", "--detach", commit.commit)
    git(repository, "clean", "-qfd")
    if edit is not None:
        edit.apply(repository)
        git(repository, "add", "--all")
    words = ("diff", "--cached", "--no-renames", f"{commit.commit}~1")
    subprocess.run(
        ["git", "-C", str(repository), *words, "--binary", "--full-index", "--output", str(patch.absolute())], check=True
    )
    paths = tuple(git(repository, *words, "--name-only", "-z").rstrip("\0").split("\0"))
    git(repository, "checkout", "--quiet", "--force", "--detach", f"{commit.commit}~1")
    return paths


def try_change(
    repository: Path, commit: RealCommit, paths: tuple[str, ...], patch: Path, pack: str, opened: tuple[str, ...] = ()
) -> tuple[Verdict, tuple[str, ...]]:
    """Run the change, a second time with the options that the first one printed. The verdict, and all options so opened.

    ``opened`` are options from the start: what a change that is known to be good needed.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    asked = opened
    for number in range(1, TRIES + 1):
        result = _run(repository, commit, paths, patch, pack, asked)
        retry = tuple(result["retry_with"])
        if result["status"] == "SUCCESS" or not retry:
            break
        asked = (*asked, *(retry if number < TRIES else ()))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    failure = result["failure"] or {"code": "", "message": ""}
    verdict = Verdict(
        status=result["status"],
        code=failure["code"],
        message=failure["message"],
        tries=number,
        tree=result["tree"] or "",
        run_id=result["run_id"] or "",
        seconds=time.perf_counter() - started,
        processor=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )
    return verdict, asked


def _run(
    repository: Path, commit: RealCommit, paths: tuple[str, ...], patch: Path, pack: str, opened: tuple[str, ...]
) -> dict[str, object]:
    words = [
        "run",
        git(repository, "log", "-1", "--format=%s", commit.commit),
        "--patch",
        str(patch.absolute()),
        "--env",
        "auto",
    ]
    words += ["--policy-pack", pack, "--json", *opened]
    words += [word for path in paths for word in ("--allow-tests" if path.startswith(commit.opens) else "--allow", path)]
    words += [word for test in commit.tests for word in ("--test", test)]
    finished = subprocess.run(
        [sys.executable, "-m", "gatewright.app.cli.main", *words],
        cwd=repository,
        env={name: value for name, value in os.environ.items() if not name.startswith(("GATEWRIGHT_", "GIT_", "PYTHON"))},
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    last = finished.stdout.splitlines()[-1:] or ["{}"]
    try:
        result: dict[str, object] = json.loads(last[0])
    except ValueError as error:
        raise SystemExit(f"{commit.name}: no result\n{finished.stdout}\n{finished.stderr}") from error
    if "status" not in result:
        raise SystemExit(f"{commit.name}: no result\n{finished.stdout}\n{finished.stderr}")
    return result
