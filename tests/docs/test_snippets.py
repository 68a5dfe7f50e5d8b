"""What README and the page on publishing print is run as it is printed, in order; only the reader's own paths are filled in."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, fenced, indented
from tests.e2e.stack import running_stack
from tests.git.repositories import MakeRepository, Repository

SECONDS = 180.0
FILES = {
    "README.md": b"read me\n",
    "docs/index.md": b"index\n",
    "src/shop/__init__.py": b'NAME = "shop"\n\n\ndef greet():\n    return "hello {}".format(NAME)\n',
    "tests/test_shop.py": b'from shop import greet\n\n\ndef test_greet():\n    assert greet() == "hello shop"\n',
    "conftest.py": b'import sys\n\nsys.path.insert(0, "src")\n',
    ".gitignore": b"/.venv\n",
}
#: Commands of these programs are run by tests of their own, which install what they need.
ELSEWHERE = ("npm ", "node ")


@pytest.fixture
def project(make_repository: MakeRepository) -> Repository:
    """A package in src layout with its environment, where paths have blanks and umlauts."""
    repository = make_repository("ein schönes Projekt", files=FILES)
    (repository.path / ".venv").symlink_to(sys.prefix)
    return repository


def environment(home: Path, *programs: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (*programs, Path(sys.executable).parent, "/usr/bin", "/bin")))
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def bash(script: str, cwd: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ("bash", "-euo", "pipefail", "-c", script)
    return subprocess.run(argv, cwd=cwd, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.long
def test_the_first_screen_of_the_readme_lands_a_change(project: Repository, tmp_path: Path) -> None:
    (script,) = [block for block in indented("README.md") if "gatewright run" in block]
    (tmp_path / ".gitconfig").write_text("[user]\nname = Ada Löwe\nemail = ada@shop.example\n")
    done = bash(script, project.path, environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (branch,) = project.git("for-each-ref", "--format=%(refname)", "refs/heads/gatewright/").decode().split()
    assert b'return f"hello {NAME}"' in project.git("show", f"{branch}:src/shop/__init__.py")
    assert project.git("log", "-1", "--format=%an <%ae>", branch).decode().strip() == "Ada Löwe <ada@shop.example>"
    assert project.git("status", "--porcelain") == b""


@pytest.mark.long
def test_the_sdk_snippet_of_the_readme_runs_as_printed(project: Repository, tmp_path: Path) -> None:
    (snippet,) = [text for language, text in fenced("README.md") if language == "python"]
    with running_stack(tmp_path / "home", workers=1) as stack:
        address = stack.state.address("publisher")
        variables = {"NATS_URL": address.url, "SEED": str(address.seed), "PROJECT": str(project.path)}
        argv = (sys.executable, "-c", snippet)
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            env=environment(tmp_path) | variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SUCCESS ")


@pytest.mark.long
def test_the_session_on_publishing_runs_from_start_to_end(project: Repository, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in = programs / "nats"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {ROOT}/tests/docs/nats_stand_in.py "$@"\n')
    stand_in.chmod(0o755)
    parts = []
    for number, (language, text) in enumerate(fenced("docs/publishing.md")):
        if language == "sh":
            lines = [line for line in text.splitlines(keepends=True) if not line.startswith(ELSEWHERE)]
            parts.append("".join(lines))
        elif language == "python":
            (tmp_path / f"{number}.py").write_text(text)
            parts.append(f"python {tmp_path}/{number}.py\n")
    script = "".join(parts).replace("=/path/to/gatewright/", f"={ROOT}/")
    script = script.replace("=/path/to/project", f"={shlex.quote(str(project.path))}")
    done = bash(f"trap 'cd \"$PROJECT\"; gatewright down' EXIT\n{script}", tmp_path, environment(tmp_path, programs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS: ok: ") == 2, "the contract and the event of the example in Python"
    assert "SUCCESS ok " in done.stdout, "the SDK"
    authors = project.git("log", "--branches=gatewright/*", "--format=%an").decode().split("\n")
    assert "Ada Example" in authors


def test_every_example_that_the_page_on_publishing_names_is_there() -> None:
    text = (ROOT / "docs" / "publishing.md").read_text()
    named = {word.strip('"').removeprefix("$EXAMPLES/") for word in text.split() if word.startswith('"$EXAMPLES/')}
    assert {"publish_python.py", "publish-node", "publish-node/publish.mjs", "$name.json"} <= named
    for name in named - {"$name.json"}:
        assert (ROOT / "examples" / name).exists(), name
    for name in ("request", "contract", "event"):
        assert "/srv/project" in json.dumps(json.loads((ROOT / "examples" / f"{name}.json").read_text()))
