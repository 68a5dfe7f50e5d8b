"""Packages shown within the workspace: what the repository or the candidate has there is never hidden, nor led elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TestReport
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, FurtherEnvironment
from gatewright.errors import ConfigurationError
from gatewright.git.mirror import Mirrors
from gatewright.sandbox import SandboxLimits, make_sandbox
from gatewright.sandbox.environments import PREPARED, Environments, ShownFolder
from gatewright.services.testrunner.handler import make_handler as make_test_runner
from gatewright.services.testrunner.settings import Settings as RunnerSettings
from gatewright.services.worker.handler import make_handler as make_worker
from gatewright.services.worker.settings import Settings as WorkerSettings
from gatewright.workspace import Workspaces
from tests.handler_fixture import HandlerFixture, make_handler_fixture

TOP = json.dumps({"name": "top", "workspaces": ["packages/*"]}).encode()
ONE = json.dumps({"name": "@s/one", "main": "index.js"}).encode()
FILES = {"package.json": TOP, "packages/one/package.json": ONE, "packages/one/index.js": b"", "say.txt": b"said\n"}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """As npm installs them: one from a registry, and a link to the workspace."""
    (tmp_path / "installed/needed").mkdir(parents=True)
    (tmp_path / "installed/needed/index.js").write_text("needed\n")
    (tmp_path / "installed/@s").mkdir()
    (tmp_path / "installed/@s/one").symlink_to("../../packages/one")
    return tmp_path / "installed"


async def run_tests(fixture: HandlerFixture, environment: Environment, *commands: str, patch: bytes = b"") -> TestReport:
    listed = tuple(Path(each.prefix) for each in environment.all)
    runner = make_test_runner(RunnerSettings(home=fixture.state, environments=listed))
    task = fixture.contract(task_type="TEST", executor=None, environment=environment)
    task = replace(
        task,
        inputs=Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", patch),)),
        acceptance_tests=tuple(
            AcceptanceTest(name=f"unit-{number}", cmd=command, must_pass=True) for number, command in enumerate(commands)
        ),
    )
    return await runner.handle(task, fixture.context())


def code_of(report: TestReport) -> tuple[str, str]:
    return report.status, (report.failure or "").partition(":")[0]


async def test_packages_stay_in_place_and_workspaces_lead_to_the_candidate(fixture: HandlerFixture, packages: Path) -> None:
    _, patch = await fixture.changed({"packages/one/index.js": b"candidate\n"})
    environment = Environment(prefix=str(packages), at="node_modules")
    report = await run_tests(
        fixture,
        environment,
        "grep needed node_modules/needed/index.js",
        "grep candidate node_modules/@s/one/index.js",
        patch=patch,
    )
    assert report.status == "PASS", report.failure
    assert report.surroundings is not None
    assert report.surroundings.environment is not None
    assert report.surroundings.environment.prefix == str(packages)


async def test_a_copy_of_a_workspace_among_the_packages_is_not_tested_instead(fixture: HandlerFixture, packages: Path) -> None:
    (packages / "@s/one").unlink()
    (packages / "@s/one").mkdir()
    (packages / "@s/one/index.js").write_text("old\n")
    report = await run_tests(fixture, Environment(prefix=str(packages), at="node_modules"), "cat say.txt")
    assert code_of(report) == ("ERROR", "environment_shadows_candidate")
    assert "@s/one -> node_modules/@s/one, and not the candidate's packages/one" in (report.failure or "")


@pytest.mark.parametrize("target", ["../../../elsewhere", "/etc", "../needed", "../../packages/other"])
async def test_a_link_to_another_place_than_the_workspace_is_refused(
    fixture: HandlerFixture, packages: Path, target: str
) -> None:
    (packages / "@s/one").unlink()
    (packages / "@s/one").symlink_to(target)
    report = await run_tests(fixture, Environment(prefix=str(packages), at="node_modules"), "cat say.txt")
    assert code_of(report) == ("ERROR", "environment_shadows_candidate")


@pytest.mark.parametrize("path", ["node_modules/needed/index.js", "node_modules"])
async def test_packages_that_the_candidate_brings_are_not_hidden(fixture: HandlerFixture, packages: Path, path: str) -> None:
    _, patch = await fixture.changed({path: b"candidate\n"})
    report = await run_tests(fixture, Environment(prefix=str(packages), at="node_modules"), "cat say.txt", patch=patch)
    assert code_of(report) == ("ERROR", "environment_shadows_candidate")


@pytest.mark.parametrize("at", ["packages", "packages/one", "packages/one/index.js", "say.txt", "say.txt/node_modules"])
async def test_what_the_repository_tracks_is_never_an_environment(fixture: HandlerFixture, packages: Path, at: str) -> None:
    environment = Environment(prefix=str(packages), at=at)
    report = await run_tests(fixture, environment, "cat say.txt")
    assert code_of(report) == ("ERROR", "place_not_free")
    worker = make_worker(WorkerSettings(home=fixture.state, environments=(packages,)))
    executor = Executor(kind="command", commands=("true",))
    result = await worker.handle(fixture.contract(executor=executor, environment=environment), fixture.context())
    assert (result.failure or "").partition(":")[0] == "place_not_free"


@pytest.mark.parametrize("at", ["../outside", "/etc", ".git/x", "a//b", ".", "a/../../b", "a\0b"])
async def test_no_place_outside_of_the_workspace_is_mounted_over(fixture: HandlerFixture, packages: Path, at: str) -> None:
    report = await run_tests(fixture, Environment(prefix=str(packages), at=at), "cat say.txt")
    assert report.status == "ERROR"
    assert "is no place in a repository" in (report.failure or "")


async def test_each_of_several_environments_has_to_be_listed(fixture: HandlerFixture, packages: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    others = (FurtherEnvironment(prefix=str(tmp_path / "secret"), at="seen"),)
    environment = Environment(prefix=str(packages), at="node_modules", others=others)
    runner = make_test_runner(RunnerSettings(home=fixture.state, environments=(packages,)))
    task = replace(
        fixture.contract(task_type="TEST", executor=None, environment=environment),
        inputs=Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", b""),)),
        acceptance_tests=(AcceptanceTest(name="unit", cmd="ls seen", must_pass=True),),
    )
    assert code_of(await runner.handle(task, fixture.context())) == ("ERROR", "environment_not_allowed")


async def test_two_environments_in_one_place_are_refused(fixture: HandlerFixture, packages: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    others = (FurtherEnvironment(prefix=str(tmp_path / "other"), at="node_modules/needed"),)
    environment = Environment(prefix=str(packages), at="node_modules", others=others)
    report = await run_tests(fixture, environment, "cat say.txt")
    assert "two environments are to be shown at node_modules/needed" in (report.failure or "")


@pytest.mark.parametrize("inside", ["../outside", "/etc", "link"])
async def test_a_record_shows_nothing_but_its_own_environment(fixture: HandlerFixture, tmp_path: Path, inside: str) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "env/link").symlink_to("../outside")
    record = {"tool": "npm", "sources": {}, "ecosystem": "node", "mounts": {"node_modules": inside}}
    (tmp_path / "env" / PREPARED).write_text(json.dumps(record))
    report = await run_tests(fixture, Environment(prefix=str(tmp_path / "env")), "ls node_modules")
    assert report.status == "ERROR"
    assert "which is no folder of the environment" in (report.failure or "")


async def test_one_of_several_environments_that_changes_is_noticed(
    fixture: HandlerFixture, packages: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    others = (FurtherEnvironment(prefix=str(tmp_path / "other"), at="other"),)
    environment = Environment(prefix=str(packages), at="node_modules", others=others)
    before = await run_tests(fixture, environment, "cat say.txt")
    (tmp_path / "other/new").write_text("x")
    after = await run_tests(fixture, environment, "cat say.txt")
    states = [each.surroundings.environment for each in (before, after) if each.surroundings is not None]
    first, second = (state for state in states if state is not None)
    assert first.place_sha256 == second.place_sha256
    assert first.files_sha256 != second.files_sha256


async def test_a_planted_link_redirects_no_mount_out_of_the_workspace(
    fixture: HandlerFixture, packages: Path, tmp_path: Path
) -> None:
    """The first command moves the folder away, and leaves a link to a folder of the host as it is seen when mounts are made."""
    mirror = await Mirrors(tmp_path / "mirrors").open(fixture.repository.url)
    sandbox, limits = make_sandbox("bubblewrap"), SandboxLimits(wall_seconds=20)
    shown = Environments((ShownFolder(packages, "packages/one/node_modules"),))
    (tmp_path / "host").mkdir()
    (tmp_path / "host").chmod(0o777)
    leave = f"mv packages/one packages/was && ln -s /oldroot{tmp_path}/host packages/one"
    async with Workspaces(tmp_path / "workspaces", overlay=False).open(mirror, fixture.baseline) as workspace:
        first = await sandbox.run(("sh", "-c", leave), workspace=workspace, prefix=shown, limits=limits)
        assert first.exit_code == 0, first.stderr
        with pytest.raises(ConfigurationError, match="a link or a file is in the way"):
            await sandbox.run(("true",), workspace=workspace, prefix=shown, limits=limits)
    assert not list((tmp_path / "host").iterdir())
