"""The jobs that verify commits in GitHub Actions and GitLab CI: their shell steps against a real repository and its clone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatewright.evidence.signing.envelopes import Signer
from tests.deploy.shipped import ROOT, read_yaml
from tests.evidence.attested_commits import Attested
from tests.evidence.conftest import private_key, recorded_runs, sealed_bundles, signer
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository", "private_key", "recorded_runs", "sealed_bundles", "signer"]

pytestmark = pytest.mark.every_case

ACTION = ROOT / "deploy" / "github" / "verify-commits" / "action.yml"
COMPONENT = ROOT / "deploy" / "gitlab" / "templates" / "verify-commits.yml"
NO_COMMIT = "0" * 40


@dataclass(frozen=True)
class Job:
    """Runs the steps of a job in a clone of the repository of ``attested``; ``folder`` is for its files."""

    attested: Attested
    folder: Path
    environment: Mapping[str, str]

    def clone(self, *how: str) -> Path:
        place = self.folder / "clone"
        url = f"file://{self.attested.repository.path}"
        self.attested.repository.git("clone", "--quiet", "--no-tags", *how, url, str(place))
        return place

    def run(self, script: str, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=place,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def put_program(self, venv: Path) -> str:
        """Return the shell line that puts the command of this checkout where the job installs it."""
        program = self.folder / "gatewright"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from gatewright.app.cli.main import main; main()' \"$@\"\n")
        program.chmod(0o755)
        return f'mkdir -p "{venv}/bin" && cp {program} "{venv}/bin/gatewright"\n'

    def github(self, base: str, head: str, *how: str, landed_in: str = "") -> subprocess.CompletedProcess[str]:
        work = self.folder / "work"
        fetch, install, verify = read_yaml(ACTION)["runs"]["steps"]
        assert "--require-hashes" in install["run"]
        variables = {
            "BASE": base,
            "HEAD": head,
            "DEFAULT_BRANCH": "main",
            "WORK": str(work),
            "KEY": self.attested.signer.public.pem().decode(),
            "LANDED_IN": landed_in,
        }
        given = {name for step in (fetch, install, verify) for name in step["env"]}
        assert given == {*variables, "LOCK"}
        place = self.clone(*how)
        return self.run(fetch["run"] + self.put_program(work / "venv") + verify["run"], place, **variables)

    def gitlab(self, base: str, head: str, *how: str, **variables: str) -> subprocess.CompletedProcess[str]:
        _, jobs = yaml.safe_load_all(COMPONENT.read_text())
        fetch, install, verify = jobs["verify-commits"]["script"]
        assert "--require-hashes" in install
        key = self.folder / "key.pem"
        key.write_bytes(self.attested.signer.public.pem())
        place = self.clone(*how)
        named = {"CI_COMMIT_BEFORE_SHA": base, "CI_COMMIT_SHA": head, "CI_DEFAULT_BRANCH": "main", "LANDED_IN": ""}
        program = self.put_program(Path("$work/venv"))
        return self.run(fetch + program + verify, place, GATEWRIGHT_KEY=str(key), **(named | variables))


@pytest.fixture
def job(make_repository: MakeRepository, sealed_bundles: dict[str, Path], signer: Signer, tmp_path: Path) -> Job:
    attested = Attested(make_repository(), sealed_bundles, signer)
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "job").mkdir()
    attested.repository.configure(uploadpack__allowAnySHA1InWant="true")
    return Job(attested, tmp_path / "job", {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"})


@pytest.fixture(params=["github", "gitlab"])
def run_job(job: Job, request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    runner: Callable[..., subprocess.CompletedProcess[str]] = getattr(job, request.param)
    return runner


Run = Callable[..., subprocess.CompletedProcess[str]]


def test_commits_of_runs_pass(job: Job, run_job: Run) -> None:
    base = job.attested.repository.head()
    job.attested.land()
    head = job.attested.land()
    ended = run_job(base, head)
    assert (ended.returncode, ended.stdout) == (0, "✔ 2 commits: 2 verified; 0 by tree\n"), ended.stderr


def test_a_commit_of_a_person_fails_with_2(job: Job, run_job: Run) -> None:
    base = job.attested.repository.head()
    job.attested.land()
    person = job.attested.commit()
    ended = run_job(base, person)
    assert (ended.returncode, person in ended.stdout) == (2, True), ended.stderr


def test_a_shallow_clone_is_completed_first(job: Job, run_job: Run) -> None:
    base = job.attested.repository.head()
    job.attested.commit()
    head = job.attested.land()
    ended = run_job(base, head, "--depth=1")
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (2, "✘ 2 commits: 1 not found, 1 verified; 0 by tree")


@pytest.mark.parametrize("base", [NO_COMMIT, ""])
def test_a_new_branch_is_compared_with_the_default_branch(job: Job, run_job: Run, base: str) -> None:
    job.attested.commit()
    job.attested.repository.git("checkout", "--quiet", "-b", "topic")
    head = job.attested.land()
    ended = run_job(base, head)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, f"✔ {head}: verified by note"), ended.stderr


def test_without_notes_the_job_fails(job: Job, run_job: Run) -> None:
    base = job.attested.repository.head()
    head = job.attested.commit()
    ended = run_job(base, head)
    assert ended.returncode != 0
    assert "refs/notes/gatewright" in ended.stderr


def test_a_run_of_another_repository_fails_with_1(job: Job) -> None:
    base = job.attested.repository.head()
    ended = job.github(base, job.attested.land(), landed_in="https://git.example.org/project")
    assert (ended.returncode, "[note_of_other_repository]" in ended.stdout) == (1, True)


def test_a_merge_request_is_compared_with_its_own_base(job: Job) -> None:
    base = job.attested.repository.head()
    head = job.attested.land()
    merged = job.attested.commit()
    named = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": head}
    ended = job.gitlab(NO_COMMIT, merged, **named)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, f"✔ {head}: verified by note"), ended.stderr


def test_branch_and_person_text_never_enters_a_script() -> None:
    steps: list[dict[str, Any]] = read_yaml(ACTION)["runs"]["steps"]
    assert not [step["name"] for step in steps if "${{" in step["run"]]
    _, jobs = yaml.safe_load_all(COMPONENT.read_text())
    assert not [part for part in jobs["verify-commits"]["script"] if "$[[" in part]


@pytest.mark.parametrize("file", [ACTION, COMPONENT], ids=lambda file: file.parent.parent.name)
def test_what_is_installed_comes_from_the_lock_file_of_the_base_commit(file: Path) -> None:
    text = file.read_text()
    assert ':$LOCK" > ' in text
    assert text.count("pip --quiet install --require-hashes --requirement ") == 1
    assert not [word for word in ("index-url", "http:", "https:", "find-links") if word in text]


def test_every_input_of_the_component_is_used_and_described() -> None:
    head, jobs = yaml.safe_load_all(COMPONENT.read_text())
    used = yaml.safe_dump(jobs)
    for name, given in head["spec"]["inputs"].items():
        assert f"$[[ inputs.{name} ]]" in used
        assert given["description"].endswith(".")
