"""Research in containers: a worker asks a search service on the network ``outside``, and reads a page that it found."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from tests.compose.deployment import Deployment, deployed, engine
from tests.research.site import MODEL_PORT, SERVICE_PORT

pytestmark = pytest.mark.compose

NAME = f"search-{uuid.uuid4().hex[:8]}"
SITE = f"http://{NAME}:{SERVICE_PORT}"
RESEARCH = {
    "version": "1",
    "services": [{"name": "web", "kind": "searxng", "base_url": SITE, "hosts": [NAME], "private": True}],
}
MODELS = {
    "version": "1",
    "providers": [{"name": "own", "apis": ["chat_completions"], "base_url": f"http://{NAME}:{MODEL_PORT}/s/search/v1"}],
    "models": [{"name": "scripted", "provider": "own", "price": None}],
    "routes": [{"role": "worker", "models": ["scripted"]}],
}


@pytest.fixture(scope="module")
def system(engine_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The system with the two policies, and a container that serves searches, pages and a model."""
    policies = {"research.json": json.dumps(RESEARCH), "models.json": json.dumps(MODELS)}
    folder = tmp_path_factory.mktemp("research")
    with (
        deployed(folder, policies=policies) as deployment,
        deployment.beside(NAME, "-m", "tests.research.site", NAME, folder=folder / "checkout"),
    ):
        yield deployment


def test_a_worker_reads_pages_found_by_a_search_service(system: Deployment) -> None:
    system.make_project("asked")
    done = system.cli("research", "How many messages does the queue hold?", "--repo", "/repositories/asked", "--json")
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["status"]) == (0, "SUCCESS"), f"{result}\n{engine('logs', NAME)}"
    assert result["findings"]["claims"][0]["claim"] == "It holds 512."
    shown = system.cli("show", result["run_id"]).stdout
    assert f'"holds at most 512 messages"  {SITE}/queue' in shown
    checked = system.cli("verify", result["bundle"], "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_only_processes_with_a_way_outside_reach_the_service(system: Deployment) -> None:
    assert [name for name in ("pm", "worker") if system.reaches(name, NAME, SERVICE_PORT)] == ["worker"]
