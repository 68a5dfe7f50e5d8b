"""Several candidates of one change through six processes: the best lands, and the bundle holds all of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Executor
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, Stack, slow_request, wait_until
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

CHECK = "python tools/check.py 0"
EDIT = "python tools/edit.py 0 {paths}"
#: Does what edit.py does, and writes much beside it.
VERBOSE = b"""import pathlib
for file in sorted(pathlib.Path("src").rglob("*.py")):
    file.write_text(file.read_text() + "edited = True\\n" + "".join(f"more_{n} = {n}\\n" for n in range(50)))
"""
#: Looks for the workspaces of others, writes wherever it can, and claims to be the first.
THIEF = b"""import os, pathlib, time
places = {pathlib.Path(p) for p in ("/", "/tmp", "/workspace", "..", "../..", os.path.expanduser("~"))}
for top in list(places):
    try:
        places.update(p for p in list(top.iterdir())[:200] if p.is_dir() and not p.is_symlink())
    except OSError:
        pass
for _ in range(10):
    for place in places:
        for name in ("src/a.py", "stolen", "candidate"):
            if place.resolve() == pathlib.Path.cwd() or not place.is_dir():
                continue
            try:
                (place / name).write_text("stolen = True  # candidate 1\\n")
            except OSError:
                pass
    time.sleep(0.1)
for file in sorted(pathlib.Path("src").rglob("*.py")):
    file.write_text(file.read_text() + "edited = True\\n" + "candidate = 1\\n" * 9)
print("I am candidate 1, and the best of all")
"""


def run_of(stack: Stack, project: Path, *commands: str) -> tuple[int, dict[str, Any]]:
    """A run with one candidate for each command."""
    words = [word for command in commands for word in ("--exec", command)]
    return stack.run(project, "--allow", "src", "--candidates", str(len(commands)), *words, "--test", CHECK)


@pytest.fixture(scope="module")
def landed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the tests of one finished run share, by the name of what it is."""
    return {}


@pytest.fixture
def finished(landed: dict[str, Any], stack: Stack, make_project: MakeProject) -> dict[str, Any]:
    """A run of three candidates of which the first is large and the third does nothing."""
    if not landed:
        project = make_project(tools__verbose=VERBOSE)
        code, result = run_of(stack, project, "python tools/verbose.py", EDIT, CHECK)
        landed.update(code=code, result=result, project=project)
    return landed


def test_the_smallest_change_lands_and_the_bundle_holds_all(finished: dict[str, Any], stack: Stack) -> None:
    result, project = finished["result"], finished["project"]
    assert (finished["code"], result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(project, project.parent / "home")
    assert repository.git("show", f"{result['branch']}:src/a.py") == b"a = 1\nedited = True\n"
    bundle = Path(result["bundle"])
    patches = {path.name.partition(".plan.")[2] for path in (bundle / "patches").iterdir()}
    assert patches == {"w01.c1.diff", "w01.c2.diff", "w01.c3.diff"}
    assert b"more_49" in next((bundle / "patches").glob("*.c1.diff")).read_bytes()
    assert b"more_49" not in (bundle / "patch.diff").read_bytes()
    assert sorted(path.name.partition(".review.")[2] for path in (bundle / "reviews").iterdir()) == ["c1.a1.json", "c2.a1.json"]
    verified = stack.command("verify", result["bundle"])
    assert verified.returncode == 0, verified.stdout


def test_the_table_names_each_maker_and_why_one_landed(finished: dict[str, Any], stack: Stack, tmp_path: Path) -> None:
    run_id = finished["result"]["run_id"]
    shown = stack.command("show", run_id).stdout
    table = [line.split() for line in shown.partition("candidates\n")[2].splitlines()[1:4]]
    assert [(row[0], row[-1]) for row in table] == [("1", "chosen"), ("2", "lands"), ("3", "executor_failed")]
    assert "candidate 2 lands: fewer changed lines than candidate 1 (2 and 102)" in shown
    rows = json.loads(stack.command("show", run_id, "--json").stdout)["candidates"]
    assert [row["made_by"] for row in rows] == ["command python tools/verbose.py", f"command {EDIT}", f"command {CHECK}"]
    assert [row["gates"] for row in rows[:2]] == [dict.fromkeys(("diff", "integrated", "reviewer", "tests"), "ok")] * 2
    assert rows[2]["gates"] == {}
    told = stack.command("show", run_id, "--as", "decisions", "--json").stdout
    assert "candidate 2 of 3 lands" in told
    page = tmp_path / "report.html"
    assert stack.command("report", run_id, "-o", str(page)).returncode == 0
    assert "The change was made 3 times" in page.read_text()


@pytest.mark.parametrize("name", ["patches/{run}.plan.w01.c1.diff", "reviews/{run}.review.c1.a1.json"])
def test_a_loser_that_is_altered_in_the_bundle_is_found(
    name: str, finished: dict[str, Any], stack: Stack, tmp_path: Path
) -> None:
    result = finished["result"]
    copy = tmp_path / result["run_id"]
    shutil.copytree(result["bundle"], copy)
    file = copy / name.format(run=result["run_id"])
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"a", b"b", 1))
    refused = stack.command("verify", str(copy))
    assert refused.returncode == 1
    assert "digest_differs" in refused.stdout


def test_a_candidate_that_looks_for_the_others_reaches_none(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__thief=THIEF)
    code, result = run_of(stack, project, "python tools/thief.py", "python tools/edit.py 1 {paths}")
    assert (code, result["status"]) == (0, "SUCCESS")
    repository = Repository(project, project.parent / "home")
    assert repository.git("show", f"{result['branch']}:src/a.py") == b"a = 1\nedited = True\n"
    details = json.loads(stack.command("show", result["run_id"], "--json").stdout)
    assert [row["chosen"] for row in details["candidates"]] == [False, True]
    changed = (Path(result["bundle"]) / "diff_name_only.txt").read_text().split()
    assert changed == ["src/a.py", "src/b.py"]


def test_a_run_none_of_whose_candidates_passes_lands_nothing(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    code, result = run_of(stack, project, "python tools/stray.py", "python tools/markers.py", CHECK)
    assert (code, result["status"], result["failure"]["code"]) == (1, "FAILED", "no_candidate_passed")
    for words in ("candidate 1: path_out_of_scope", "candidate 2: review_failed", "candidate 3: executor_failed"):
        assert words in result["failure"]["message"]
    assert stack.command("verify", result["bundle"]).returncode == 0


def test_a_gatekeeper_killed_while_candidates_are_made_chooses_the_same(own_stack: Stack, make_project: MakeProject) -> None:
    project = make_project(tools__verbose=VERBOSE)
    commands = ("python tools/verbose.py", "python tools/edit.py 1.0 {paths}")
    request = replace(
        slow_request(project, 0.0),
        executor=None,
        candidates=tuple(Executor(kind="command", commands=(command,)) for command in commands),
    )
    with own_stack.client() as client:
        run_id = client.submit_request(request, patience=PATIENCE)
        wait_until(lambda: client.get(run_id).state == "S2")
        assert own_stack.kill("gatekeeper") >= 1
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.chosen) == ("SUCCESS", 2)
    assert run.sealed is not None
    assert own_stack.command("verify", run.sealed.location).returncode == 0
