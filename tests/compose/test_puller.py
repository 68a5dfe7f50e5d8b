"""``--env auto`` in containers: the puller prepares what commands of the roles see, from a registry that only it reaches."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from tests.compose.deployment import UID, Deployment, deployed, engine, git
from tests.environments.wheels import make_wheel

pytestmark = pytest.mark.compose

NAME = f"registry-{uuid.uuid4().hex[:8]}"
SOURCE = {"name": "own", "hosts": [f"{NAME}:8080"], "private": True, "http": True, "ecosystem": "python", "index": "/simple"}
FILES = {"requirements.txt": b"needed\n", "tools/needs.py": b"import needed\nprint(needed.__file__)\n"}


@pytest.fixture(scope="module")
def system(engine_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The system with a puller, and a registry on its network for the outside."""
    folder = tmp_path_factory.mktemp("puller")
    (folder / "pages/simple").mkdir(parents=True)
    wheel = make_wheel(folder / "pages/simple/needed", "needed")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    given = {"COMPOSE_PROFILES": "puller", "PIP_INDEX_URL": f"http://{NAME}:8080/simple", "PIP_TRUSTED_HOST": NAME}
    policies = {"egress.json": json.dumps({"version": "1", "sources": [SOURCE]})}
    with deployed(folder, policies=policies, environment=given) as deployment:
        project = json.loads(deployment.do("config", "--format", "json").stdout)["name"]
        words = (
            "--rm",
            "--detach",
            "--name",
            NAME,
            "--network",
            f"{project}_outside",
            "--volume",
            f"{folder / 'pages'}:/pages:ro",
        )
        engine("run", *words, "--entrypoint", "python", project, "-m", "http.server", "8080", "--directory", "/pages")
        try:
            yield deployment
        finally:
            engine("rm", "--force", NAME, check=False)


def test_a_run_gets_its_packages_from_the_puller(system: Deployment) -> None:
    project = system.make_project("packages", FILES)
    words = ("--env", "auto", "--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/needs.py")
    code, result = system.order("packages", *words)
    assert (code, result["status"]) == (0, "SUCCESS"), f"{result}\n{system.do('logs', '--no-color', 'puller').stdout}"
    assert git(project, "show", f"{result['branch']}:src/a.py") == "a = 1\nedited = True"
    shown = system.cli("show", result["run_id"], "--as", "inventory", "--json")
    assert '"needed"' in shown.stdout, shown.stdout + shown.stderr
    checked = system.cli("verify", result["bundle"], "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    owners = system.inside("puller", "stat", "--format", "%u", "/srv/puller/environments").split()
    assert owners == [str(UID)]


def test_a_second_order_sends_no_request(system: Deployment) -> None:
    asked = len(engine("logs", NAME).splitlines())
    system.make_project("again", FILES)
    words = ("--env", "auto", "--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/needs.py")
    code, result = system.order("again", *words)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    assert len(engine("logs", NAME).splitlines()) == asked


def test_environments_are_read_only_for_roles(system: Deployment) -> None:
    code = "open('/srv/puller/environments/x', 'w')"
    assert [name for name in ("worker", "testrunner", "puller") if not _fails(system, name, code)] == ["puller"]


def test_only_those_with_a_way_outside_reach_the_registry(system: Deployment) -> None:
    code = f"import socket; socket.create_connection(('{NAME}', 8080), 3)"
    assert [name for name in ("pm", "puller") if not _fails(system, name, code)] == ["puller"]


def _fails(system: Deployment, service: str, code: str) -> bool:
    return system.do("exec", "-T", service, "python", "-c", code, check=False).returncode != 0


def test_an_order_is_refused_without_a_puller(system: Deployment) -> None:
    system.do("stop", "puller")
    system.make_project("later", {**FILES, "requirements.txt": b"needed==1.0\n"})
    code, result = system.order("later", "--env", "auto", "--exec", "true", "--test", "true")
    assert (code, result["failure"]["code"]) == (3, "puller_missing")
