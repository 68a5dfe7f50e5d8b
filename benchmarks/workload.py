"""The repository and the change that every benchmark works on, and the end that their runs must have."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gatewright.client.client import Client, inline_artifact
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, Repository
from gatewright.run.state import Run

FILES = 200
IDENTITY = ["-c", "user.name=Bench", "-c", "user.email=bench@localhost"]


def make_repository(path: Path) -> Path:
    """A repository of 200 small files in ten folders, one commit on ``main``."""
    path.mkdir(parents=True)
    for number in range(FILES):
        folder = path / "src" / f"part{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module{number}.py").write_text(f"value = {number}\n" * 20)
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "add", "--all")
    git(path, *IDENTITY, "commit", "--quiet", "--message", "baseline")
    return path


def make_patch(number: int) -> bytes:
    """A patch that adds one file of its own, so that many runs may be in flight at once."""
    name = f"src/new/added{number}.py"
    return (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+value = {number}\n"
    ).encode()


def make_request(repository: Path, number: int) -> RunRequest:
    """The run that lands that patch on a branch, with one trivial acceptance command."""
    return RunRequest(
        request=f"add file {number}",
        repository=Repository(url=str(repository)),
        requested_by="bench",
        allowed_paths=(f"src/new/added{number}.py",),
        acceptance_tests=(AcceptanceTest(name="trivial", cmd="true", must_pass=True),),
        executor=Executor(kind="patch", artifacts=("patch",)),
        artifacts=(inline_artifact("patch", make_patch(number)),),
    )


async def succeeded(client: Client, run_id: str, timeout: float | None = None) -> Run:  # noqa: ASYNC109 - as ``wait`` has it
    """The run at its end: nothing is measured on a run that failed. Raises SystemExit with its failure."""
    return proved(await client.wait(run_id, timeout=timeout))


def proved(run: Run, *expected: str) -> Run:
    """The run, when it was a success, or failed with one of the codes ``expected``. Raises SystemExit with its failure."""
    if run.status != "SUCCESS" and not (run.failure and run.failure.code in expected):
        raise SystemExit(f"{run.run_id} ended as {run.status}: {run.failure or 'no failure is recorded'}")
    return run


def git(path: Path, *words: str, stdin: bytes | None = None, index: Path | None = None) -> bytes:
    """Plain git, for setting up and for the bare floor."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    argv = ["git", "-C", str(path), *words]
    return subprocess.run(argv, input=stdin, env=environment, capture_output=True, check=True).stdout
