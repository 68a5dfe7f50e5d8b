"""The main use, end to end, on a real project: a codemod by two workers lands, and the gatekeeper refuses five attacks.

Recorded runs follow: a model's change, and that of a real coding agent if it is installed. The recordings are from a scripted
model, so the demo calls no model and needs no key. Then a run waits for an approval, which the demo signs with its own key.
Finally five changes pass through the merge queue of one branch.

Run it with `make demo`. It writes only into `.demo/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from approving import Approving
from hostile import ATTACKS, CODEMOD, Attack, attacks
from queueing import ORDERS, Queueing
from recording import BY_CODEX, BY_MODEL, RecordedRun, make_policies, make_project, missing_codex
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: One folder per Python version, because two may run the demo at once.
DEMO = ROOT / ".demo" / f"python-{platform.python_version()}"
PROJECT = DEMO / "markdown"
#: Where ``make agents`` installs coding agents.
AGENTS = ROOT / ".agents"
PINNED = (HERE / "requirements.lock", HERE / "sdist.txt")
#: One environment per Python version and set of pinned packages.
PREFIX = DEMO / f"env-{hashlib.sha256(b''.join(map(Path.read_bytes, PINNED))).hexdigest()[:8]}"
#: git on the project, without the user's signing and hooks.
IDENTITY = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost")
GIT = ("git", "-C", str(PROJECT), *IDENTITY, "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null")
GATEWRIGHT = [sys.executable, "-m", "gatewright.app.cli.main"]
MODERNISE = "ruff check --fix --exit-zero --no-cache --isolated --target-version py39 --select UP {paths}"
TESTS = "python -m unittest discover tests"

console = Console(highlight=False)


def main() -> int:
    prepare()
    started = time.monotonic()
    landed = codemod()
    refused = hostile()
    played = recorded(2 + len(refused))
    console.rule(f"{2 + len(refused) + len(played)}. a run that waits for an approval before it lands")
    Approving(DEMO / "approval", PREFIX, console).play()
    alone = 2 + len(refused) + len(played)
    console.rule(f"{alone + 1}. five changes for one branch, through its merge queue")
    queued = Queueing(DEMO / "queue", PREFIX, console).play()
    seconds = time.monotonic() - started
    console.rule("results")
    report(landed, refused, played)
    console.print(f"\n{alone + len(ORDERS)} runs took [bold]{seconds:.1f} s[/] after set-up; no attack moved a ref")
    look(landed, refused[0][1])
    console.print(f"\n{queued}", markup=False, soft_wrap=True)
    return 0


def prepare() -> None:
    """Create a git repository from a source distribution, and an environment for its tests and the codemod."""
    console.rule("set-up")
    DEMO.mkdir(parents=True, exist_ok=True)
    (DEMO / ".gitignore").write_text("*\n")
    if not (PREFIX / "ready").exists():
        set_up()
    shutil.rmtree(PROJECT, ignore_errors=True)
    (archive,) = (PREFIX / "sources").glob("*.tar.gz")
    # Before 3.11.4, Python as root sets the owners that the archive names, and git refuses such files.
    run(["tar", "-xzof", str(archive), "-C", str(DEMO)])
    (DEMO / archive.name.removesuffix(".tar.gz")).rename(PROJECT)
    (PROJECT / CODEMOD).parent.mkdir(exist_ok=True)
    shutil.copyfile(ATTACKS / "phones_home.py", PROJECT / CODEMOD)
    run(["git", "init", "--quiet", "--template=", "--initial-branch=main", str(PROJECT)])
    run([*GIT, "add", "--all", "--force"])
    run([*GIT, "commit", "--quiet", "--message", f"Import {archive.name}"])
    console.print(f"repository: {PROJECT}")


def set_up() -> None:
    """Download pinned packages and check their hashes. An interrupted set-up starts again."""
    shutil.rmtree(PREFIX, ignore_errors=True)
    console.print("an environment with the codemod (ruff) and what the project's tests import ...")
    venv.create(PREFIX, with_pip=True, symlinks=True)
    pip = [str(PREFIX / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--require-hashes", "--requirement", str(HERE / "requirements.lock")])
    console.print("the source distribution of a real project ...")
    # pip runs the project's build for its metadata. Use the environment's build tools, so that pip fetches no unpinned code.
    source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
    run([*pip, "download", *source, "--requirement", str(HERE / "sdist.txt"), "--dest", str(PREFIX / "sources")])
    run([*pip, "uninstall", "--yes", "pip"])  # the codemod and the tests need no installer
    (PREFIX / "ready").touch()


def codemod() -> dict[str, object]:
    """Run a codemod with two workers and the project's tests; check that it lands on a branch and its bundle verifies."""
    console.rule("1. a codemod over a real project, split for two workers")
    change = Change("Use f-strings and today's idioms", allow="markdown", test=TESTS)
    code, result = change.order("--exec", MODERNISE, "--shards", "2", "--workers", "2")
    if code != 0 or result["status"] != "SUCCESS":
        raise SystemExit(f"the codemod run did not succeed: {result}")
    console.rule("the evidence, verified offline")
    if subprocess.run([*GATEWRIGHT, "verify", str(result["bundle"])], cwd=PROJECT, check=False).returncode != 0:
        raise SystemExit("the bundle does not verify")
    return result


def hostile() -> list[tuple[Attack, dict[str, object]]]:
    """Run each attack. The gatekeeper must refuse it with its reason code, and no ref may move."""
    before = refs()
    outcomes = []
    for number, attack in enumerate(attacks(DEMO), start=2):
        console.rule(f"{number}. {attack.title}")
        change = Change(attack.request, allow=attack.allow, test=TESTS)
        code, result = change.order(*attack.words)
        failure = result["failure"]
        if code != 1 or not isinstance(failure, dict) or failure["code"] != attack.code:
            raise SystemExit(f"expected a refusal with {attack.code}: exit {code}, {result}")
        outcomes.append((attack, result))
    if refs() != before:
        raise SystemExit("a refused attack moved a ref")
    return outcomes


def recorded(number: int) -> list[RecordedRun]:
    """Replay runs with recorded model calls; all other work is real. Codex runs only if it is installed."""
    project, policies = DEMO / "greeter", DEMO / "policies"
    make_project(project)
    make_policies(policies)
    # Keep this home: the next demo reuses the probe of the agent.
    own = {"GATEWRIGHT_HOME": str(DEMO / "home"), "GATEWRIGHT_POLICIES": str(policies)}
    environment = {**os.environ, **own, "GATEWRIGHT_AGENT_INSTALLATIONS": str(AGENTS)}
    why_not = missing_codex(AGENTS)
    played = [BY_MODEL] if why_not else [BY_MODEL, BY_CODEX]
    for each in played:
        console.rule(f"{number}. {each.title}, recorded from a scripted model")
        number += 1
        if each is BY_CODEX and not (DEMO / "home" / "agents" / "codex.json").exists():
            console.print("probing Codex once; this takes a minute or more ...")
            run_in(project, environment, ["agents", "probe", "codex"])
        if run_in(project, environment, ["run", *each.arguments(PREFIX), "--cassette", str(each.cassettes)]) != 0:
            raise SystemExit("the recorded run failed: a prompt or the agent changed: run `make recordings`")
    if why_not:
        console.print(f"skipping the recorded run of a real coding agent: {why_not}", soft_wrap=True)
    return played


def run_in(project: Path, environment: Mapping[str, str], words: list[str]) -> int:
    """Run `gatewright` with its output on the terminal, and return the exit code."""
    console.print("$ gatewright " + shlex.join(words), style="bold", markup=False, soft_wrap=True)
    return subprocess.run([*GATEWRIGHT, *words], cwd=project, env=environment, check=False).returncode


def refs() -> str:
    """Return every ref of the project with its target."""
    return run([*GIT, "for-each-ref"])


@dataclass(frozen=True)
class Change:
    """An order: the request, the allowed paths, and the test command."""

    request: str
    allow: str
    test: str

    def order(self, *words: str) -> tuple[int, dict[str, object]]:
        """Run `gatewright run` with its output on the terminal, and return the exit code and the run's result."""
        typed = ["run", self.request, "--allow", self.allow, "--test", self.test, "--env", str(PREFIX), *words]
        console.print("$ gatewright " + shlex.join(typed), style="bold", markup=False, soft_wrap=True)
        with subprocess.Popen([*GATEWRIGHT, *typed], cwd=PROJECT) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # The interrupt reaches the command too: it aborts its run and stops its processes.
                process.wait()
                raise
        shown = subprocess.run([*GATEWRIGHT, "show", "--json"], cwd=PROJECT, check=False, capture_output=True, text=True)
        document = json.loads(shown.stdout) if shown.stdout else {}
        if "result" not in document:
            raise SystemExit(f"`gatewright run` started no run and exited with {code}\n{shown.stderr}")
        result: dict[str, object] = document["result"]
        return code, result


def report(landed: dict[str, object], refused: list[tuple[Attack, dict[str, object]]], played: list[RecordedRun]) -> None:
    """Print one line for each run."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("[green]landed[/]", "a codemod by two workers", str(landed["status"]))
    for attack, _ in refused:
        table.add_row("[red]refused[/]", attack.title, attack.code)
    for each in played:
        table.add_row("[green]landed[/]", f"{each.title}, recorded from a scripted model", "SUCCESS")
    table.add_row("[green]landed[/]", "after an approval, which this script signed", "SUCCESS")
    for order in ORDERS:
        outcome = f"[{'red' if order.code else 'green'}]{'left' if order.code else 'landed'}[/]"
        table.add_row(outcome, f"in a merge queue: {order.title}", order.code or "SUCCESS")
    console.print(table)


def look(landed: dict[str, object], refused: dict[str, object]) -> None:
    """Print commands that show the results."""
    console.print("\nNext commands to try:")
    command_line = shlex.quote(str(Path(sys.executable).with_name("gatewright")))
    project = PROJECT.relative_to(ROOT)
    for words, command in (
        ("what the two workers changed", f"git -C {project} diff main {landed['branch']}"),
        ("the landed commit and its trailers", f"git -C {project} log -1 {landed['branch']}"),
        ("the evidence of the first run", f"ls {shlex.quote(str(landed['bundle']))}"),
        ("why the first attack was refused", f"cd {project} && {command_line} show {refused['run_id']}"),
    ):
        console.print(f"  {words}:\n      [bold]{command}[/]", soft_wrap=True)


def run(argv: list[str]) -> str:
    """Run a command of the set-up and return its output. Raises SystemExit if it fails."""
    finished = subprocess.run(argv, check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}\n{finished.stdout}{finished.stderr}")
    return finished.stdout


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
