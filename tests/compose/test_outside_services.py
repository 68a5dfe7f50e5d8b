"""Services beside the system in containers: registries for the puller, and a search service and a model for a worker.

``--env auto``: the puller prepares what commands of the roles see, from registries that no sandbox reaches.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.compose.deployment import UID, Deployment, deployed, engine, git
from tests.environments.registries import NpmRegistry
from tests.environments.wheels import make_wheel
from tests.research.site import MODEL_PORT, SERVICE_PORT

pytestmark = pytest.mark.compose

NAME = f"registry-{uuid.uuid4().hex[:8]}"
NPM = f"npm-{NAME}"
SOURCE = {"name": "own", "hosts": [f"{NAME}:8080"], "private": True, "http": True, "ecosystem": "python", "index": "/simple"}
NODE_SOURCE = {"name": "npm", "hosts": [f"{NPM}:8080"], "private": True, "http": True, "ecosystem": "node"}
SEARCH = f"search-{uuid.uuid4().hex[:8]}"
SITE = f"http://{SEARCH}:{SERVICE_PORT}"
RESEARCH = {
    "version": "1",
    "services": [{"name": "web", "kind": "searxng", "base_url": SITE, "hosts": [SEARCH], "private": True}],
}
MODELS = {
    "version": "1",
    "providers": [{"name": "own", "apis": ["chat_completions"], "base_url": f"http://{SEARCH}:{MODEL_PORT}/s/search/v1"}],
    "models": [{"name": "scripted", "provider": "own", "price": None}],
    "routes": [{"role": "worker", "models": ["scripted"]}],
}
FILES = {"requirements.txt": b"needed\n", "tools/needs.py": b"import needed\nprint(needed.__file__)\n"}
NODE_TEST = b"""const assert = require('node:assert');
const { test } = require('node:test');
const { word } = require('needed');
test('is needed', () => { assert.strictEqual(word, 'needed'); });
"""


@pytest.fixture(scope="module")
def npm() -> NpmRegistry:
    """A registry with one package, whose public address each lock names."""
    made = NpmRegistry()
    made.add("needed", {"index.js": "exports.word = 'needed';\n"})
    return made


@pytest.fixture(scope="module")
def system(engine_here: None, npm: NpmRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The system with a puller and the tools of Node; registries, searches, pages and a model on the network ``outside``."""
    folder = tmp_path_factory.mktemp("puller")
    (folder / "pages/simple").mkdir(parents=True)
    wheel = make_wheel(folder / "pages/simple/needed", "needed")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    (archive,) = (path for path in npm.pages if path.endswith(".tgz"))
    (folder / "pages" / archive[1:]).parent.mkdir(parents=True)
    (folder / "pages" / archive[1:]).write_bytes(npm.pages[archive])
    given = {"COMPOSE_PROFILES": "puller", "PIP_INDEX_URL": f"http://{NAME}:8080/simple", "PIP_TRUSTED_HOST": NAME}
    given |= {"GATEWRIGHT_TOOLS": "nodejs npm", "npm_config_registry": f"http://{NPM}:8080/"}
    policies = {
        "egress.json": json.dumps({"version": "1", "sources": [SOURCE, NODE_SOURCE]}),
        "research.json": json.dumps(RESEARCH),
        "models.json": json.dumps(MODELS),
    }
    serve = ("-m", "http.server", "8080", "--directory", "/shown")
    with (
        deployed(folder, policies=policies, environment=given) as deployment,
        deployment.beside(NAME, *serve, folder=folder / "pages", aliases=(NPM,)),
        deployment.beside(SEARCH, "-m", "tests.research.site", SEARCH, folder=folder / "checkout"),
    ):
        yield deployment


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
    asked = served_requests()
    system.make_project("again", FILES)
    words = ("--env", "auto", "--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/needs.py")
    code, result = system.order("again", *words)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    assert "GET /simple/needed/" in asked
    assert served_requests() == asked


def test_a_node_project_is_tested_with_the_pullers_packages(system: Deployment, npm: NpmRegistry) -> None:
    manifest = {"name": "top", "version": "1.0.0", "devDependencies": {"needed": "^1.0.0"}, "scripts": {"test": "node --test"}}
    files = {
        "package.json": json.dumps(manifest).encode(),
        "package-lock.json": npm.lock(manifest).encode(),
        "test/needed.test.js": NODE_TEST,
    }
    project = system.make_project("front", files)
    code, result = system.order("front", "--env", "auto", "--exec", "python tools/edit.py 0 {paths}", "--test", "npm test")
    assert (code, result["status"]) == (0, "SUCCESS"), f"{result}\n{system.do('logs', '--no-color', 'puller').stdout}"
    assert git(project, "show", f"{result['branch']}:src/a.py") == "a = 1\nedited = True"
    report = json.loads(system.inside("gatekeeper", "cat", f"{result['bundle']}/reports/test_report.json"))
    assert [each["proof"]["framework"] for each in report["commands"]] == ["node:test"]
    (log,) = system.inside("puller", "sh", "-c", "grep -l needed-1.0.0.tgz /srv/puller/environments/*/*.jsonl").split()
    (line,) = map(json.loads, system.inside("puller", "cat", log).splitlines())
    assert (line["host"], line["status"], line["decision"]) == (f"{NPM}:8080", 200, "allowed")
    assert "GET /needed/-/needed-1.0.0.tgz" in served_requests()
    checked = system.cli("verify", result["bundle"], "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def served_requests() -> str:
    """The lines that the registries have logged."""
    done = subprocess.run(["docker", "logs", NAME], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout + done.stderr


def test_environments_are_read_only_for_roles(system: Deployment) -> None:
    write = ("python", "-c", "open('/srv/puller/environments/x', 'w')")
    done = {name: system.do("exec", "-T", name, *write, check=False) for name in ("worker", "testrunner", "puller")}
    assert [name for name, each in done.items() if each.returncode == 0] == ["puller"]


def test_only_those_with_a_way_outside_reach_these_services(system: Deployment) -> None:
    assert [name for name in ("pm", "puller") if system.reaches(name, NAME, 8080)] == ["puller"]
    assert [name for name in ("pm", "worker") if system.reaches(name, SEARCH, SERVICE_PORT)] == ["worker"]


def test_a_worker_reads_pages_found_by_a_search_service(system: Deployment) -> None:
    system.make_project("asked")
    done = system.cli("research", "How many messages does the queue hold?", "--repo", "/repositories/asked", "--json")
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["status"]) == (0, "SUCCESS"), f"{result}\n{engine('logs', SEARCH)}"
    assert result["findings"]["claims"][0]["claim"] == "It holds 512."
    shown = system.cli("show", result["run_id"]).stdout
    assert f'"holds at most 512 messages"  {SITE}/queue' in shown
    checked = system.cli("verify", result["bundle"], "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_order_is_refused_without_a_puller(system: Deployment) -> None:
    system.do("stop", "puller")
    system.make_project("later", {**FILES, "requirements.txt": b"needed==1.0\n"})
    code, result = system.order("later", "--env", "auto", "--exec", "true", "--test", "true")
    assert (code, result["failure"]["code"]) == (3, "puller_missing")
