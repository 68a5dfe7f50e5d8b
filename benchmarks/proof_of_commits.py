"""Judge real commits with tests as changes: what repeated calls and red first find in each.

    python -m benchmarks.proof_of_commits GIT_DIR --test "python -m pytest -q" --env ENVIRONMENT --count 4

Each of the newest commits that change sources and tests is the change; its parent is the baseline. One line of JSON a commit.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from msgspec import to_builtins

from gatewright.ecosystems.runner.names import is_test
from tests.ecosystems.suites import Suite, proof_of

#: Tests that show nothing about a change.
_SEEDED_FILE = "test_seeded_here.py"
_SEEDED = b"""def test_constant():
    assert 1 + 1 == 2


def test_any_error_passes():
    try:
        import no_such_module_here
    except Exception:
        pass


def test_other_code():
    import json

    assert json.loads("[1]") == [1]
"""
#: Commits that are looked at, and changed files of one.
_LOOKED_AT, _MOST_FILES = 600, 12


def git(repository: Path, *words: str) -> bytes:
    """Return the output of a git command."""
    return subprocess.run(["git", "-C", repository, *words], capture_output=True, check=True).stdout


def files_of(repository: Path, revision: str) -> dict[str, bytes]:
    """Return the regular files of a commit."""
    with tarfile.open(fileobj=io.BytesIO(git(repository, "archive", revision))) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def commits_of(repository: Path, count: int) -> list[str]:
    """Return the newest commits that change Python sources and tests."""
    found = []
    for commit in git(repository, "log", "--no-merges", "--format=%H", "-n", str(_LOOKED_AT)).decode().split():
        names = git(repository, "diff-tree", "--root", "--no-commit-id", "--name-only", "-r", commit).decode().split("\n")
        sources = [name for name in names if name.endswith(".py")]
        tests = [name for name in sources if is_test(name.encode())]
        if tests and len(tests) < len(sources) and len(names) <= _MOST_FILES:
            found.append(commit)
        if len(found) == count:
            break
    return found


async def judge(repository: Path, commit: str, command: str, environment: Path, *, seeded: bool) -> dict[str, object]:
    """Run the command on one commit as the test runner does; ``seeded``: with three vacuous tests added to the change."""
    before, after = files_of(repository, f"{commit}^"), files_of(repository, commit)
    folders = [Path(path).parent for path in after if is_test(path.encode()) and Path(path).name.startswith("test_")]
    if seeded:
        after[str(folders[0] / _SEEDED_FILE)] = _SEEDED
    changes = {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "project"
        place.mkdir()
        report = await Suite(place, before, prefix=environment).tested(changes, command)
    proof = proof_of(report)
    passed = proof.red_first.passed if proof.red_first is not None else ()
    found = {"vacuous_found": sum(_SEEDED_FILE in name for name in passed)} if seeded else {}
    return found | {
        "commit": commit,
        "status": report.status,
        "replay": to_builtins(proof.replay),
        "red_first": to_builtins(proof.red_first),
    }


def main() -> None:
    """Print one line of JSON for each commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--test", required=True)
    parser.add_argument("--env", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed-vacuous", action="store_true", help="add three vacuous tests to each change")
    options = parser.parse_args()
    for commit in commits_of(options.repository, options.count):
        judged = judge(options.repository, commit, options.test, options.env, seeded=options.seed_vacuous)
        print(json.dumps(asyncio.run(judged)), flush=True)


if __name__ == "__main__":
    main()
