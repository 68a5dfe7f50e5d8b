"""A run whose models were asked is done again from its bundle: same requests, same decisions, same tree, no key, no network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gatewright.prompts
from examples.demo.recording import BY_MODEL, make_policies, make_project
from gatewright.models.cassettes import Cassette, CassetteWriter
from gatewright.resources import policy_directory
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX, Stack, running_stack
from tests.git.repositories import Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.structured.scripted import answering, write_models

pytestmark = pytest.mark.long

CHECK = "python tools/check.py 0"
PLAN: dict[str, Any] = {
    "summary": "One file each.",
    "shards": [{"paths": ["src/a.py"], "batch": "narrow"}, {"paths": ["src/b.py"], "batch": "narrow"}],
}
REVIEW: dict[str, Any] = {
    "verdict": "PASS",
    "summary": "The marks are there.",
    "evidence": [{"path": "src/a.py", "line": 2, "note": "the mark"}],
}


def write(body: dict[str, Any]) -> Say:
    """The one file that is shown, edited."""
    name = "b" if "b = 1" in json.dumps(body["messages"]) else "a"
    return Say(f"```python\n# file: src/{name}.py\n{name} = 1\nedited = True\n```\n")


@dataclass(frozen=True)
class RecordingStack(Stack):
    """A stack whose tech lead, workers and reviewer ask models by script."""

    policies: Path

    @property
    def environment(self) -> dict[str, str]:
        asking = {"GATEWRIGHT_POLICIES": str(self.policies), "GATEWRIGHT_CONSULT": "techlead,reviewer", "SCRIPTED_KEY": KEY}
        return {**super().environment, **asking}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@pytest.fixture(scope="module")
def recording(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingStack]:
    folder = tmp_path_factory.mktemp("recording")
    policies = Path(shutil.copytree(policy_directory(), folder / "policies"))
    write_models(policies, provider, {"pm": "pm", "techlead": "plan", "reviewer": "review", "worker": "write"})
    provider.scripts.update(plan=answering(PLAN), review=answering(REVIEW), write=write)
    stack = RecordingStack(folder / "home", policies)
    with running_stack(folder / "home", workers=2, stack=stack):
        yield stack


@pytest.fixture(scope="module")
def recorded(
    recording: RecordingStack,
    provider: ScriptedProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    """The project and the bundle of a run in which a tech lead, two workers at once and a reviewer asked models."""
    project = tmp_path_factory.mktemp("recorded") / "project"
    project.mkdir()
    repository = Repository(project, project.parent)
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.commit(FILES)
    code, result = recording.run(project, "--allow", "src", "--test", CHECK, "--shards", "2", "--model", "write-model")
    assert (code, result["status"]) == (0, "SUCCESS"), result["failure"]
    provider.requests.clear()
    return project, Path(result["bundle"])


def reexecuted(stack: Stack, bundle: Path, code: int = 0, **extra: str) -> dict[str, Any]:
    """What `gatewright replay --reexecute` tells, in an environment without the key.

    In a process of its own: at its end it ends every child, and the running stack is one of this process.
    """
    finished = stack.process("replay", "--reexecute", str(bundle), "--json", extra={"SCRIPTED_KEY": "", **extra})
    assert finished.returncode == code, finished.stdout + finished.stderr
    told: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return told


def test_a_recorded_run_repeats_requests_decisions_and_tree(
    recording: RecordingStack, provider: ScriptedProvider, recorded: tuple[Path, Path]
) -> None:
    project, bundle = recorded
    report = reexecuted(recording, bundle)
    assert (report["status"], report["hard_diffs"]) == ("pass", [])
    assert provider.requests == []
    (written,) = (recording.home / "reexecutions").glob(f"{bundle.name}--*.json")
    second = written.parent / written.stem.partition("--")[2]
    assert recording.command("verify", str(second)).returncode == 0
    assert (second / "git" / "candidate_tree.txt").read_bytes() == (bundle / "git" / "candidate_tree.txt").read_bytes()
    # What was played is recorded again, and is the same to the byte.
    assert cassettes(second) == cassettes(bundle)
    assert set(cassettes(bundle)) == {"plan", "plan.w01", "plan.w02", "review.a1"}
    branches = Repository(project, project.parent).git("branch", "--list", "gatewright/*").decode().split()
    assert len(branches) == 1
    assert [path.name for path in written.parent.iterdir() if path.name.startswith(".")] == []


def test_every_place_shown_of_a_repeated_run_exists(recording: RecordingStack, recorded: tuple[Path, Path]) -> None:
    _, bundle = recorded
    finished = recording.process("replay", "--reexecute", str(bundle), extra={"SCRIPTED_KEY": ""})
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert ".playing-" not in finished.stdout + finished.stderr
    (place,) = [line.split()[-1] for line in finished.stdout.splitlines() if line.split()[:1] == ["bundle"]]
    assert (Path(place) / "manifest.json").exists()


def cassettes(bundle: Path) -> dict[str, bytes]:
    """The calls of each task of a bundle."""
    files = [path.read_bytes() for path in bundle.rglob("*.cassette.jsonl")]
    return {json.loads(data.partition(b"\n")[0])["task"]: data for data in files}


def test_one_changed_byte_of_a_prompt_fails_with_the_difference(
    recording: RecordingStack, provider: ScriptedProvider, recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    _, bundle = recorded
    prompts = Path(shutil.copytree(Path(gatewright.prompts.__file__).parent / "builtin", tmp_path / "prompts"))
    roles = prompts / "roles.yaml"
    roles.write_text(roles.read_text().replace("and nothing beside it", "and nothing beside It"))
    report = reexecuted(recording, bundle, code=1, GATEWRIGHT_PROMPTS=str(prompts))
    hard = {each["key"]: each.get("actual") for each in report["hard_diffs"]}
    assert hard["failure.code"] == "cassette_miss"
    (message,) = (each["actual"] for each in report["soft_diffs"] if each["key"] == "failure.message")
    assert "the nearest recorded request differs at /body/messages/0/content" in message
    assert "beside It" in message
    assert any(key.startswith("requests.plan.w0") for key in hard)
    assert provider.requests == []


@pytest.mark.parametrize("place", ["cassettes/*.w01.cassette.jsonl", "consultations/*.review.a1/calls.cassette.jsonl"])
def test_a_changed_cassette_is_found_and_not_replayed(
    recording: RecordingStack, recorded: tuple[Path, Path], tmp_path: Path, place: str
) -> None:
    _, bundle = recorded
    forged = Path(shutil.copytree(bundle, tmp_path / bundle.name))
    (path,) = forged.glob(place)
    writer = CassetteWriter(json.loads(path.read_bytes().partition(b"\n")[0])["task"])
    for call in Cassette.read(path.read_bytes()).calls:
        # Whole and with a digest of its own: as a cassette it is a good one.
        writer.record(msgspec.structs.replace(call, reply=("forged",)))
    path.chmod(0o600)
    path.write_bytes(writer.as_jsonl())
    verified = recording.command("verify", str(forged), "--json")
    assert verified.returncode == 1
    found = {finding["code"] for finding in json.loads(verified.stdout)["findings"]}
    assert found & {"digest_differs", "size_differs"}
    assert reexecuted(recording, forged, code=1)["error"]["code"] == "bundle_not_verified"


def test_a_running_stack_that_could_ask_models_is_not_taken_to_play(
    recording: RecordingStack, provider: ScriptedProvider, recorded: tuple[Path, Path]
) -> None:
    project, bundle = recorded
    provider.requests.clear()
    words = ("--allow", "src", "--test", CHECK, "--model", "write-model", "--cassette", str(bundle))
    code, result = recording.run(project, *words)
    assert (code, result["failure"]["code"]) == (2, "invalid_input")
    assert "gatewright down" in result["failure"]["message"]
    assert provider.requests == []


def test_the_recorded_demo_run_uses_the_current_prompts(tmp_path: Path) -> None:
    make_project(tmp_path / "greeter")
    make_policies(tmp_path / "policies")
    player = RecordingStack(tmp_path / "home", tmp_path / "policies")
    words = ("run", *BY_MODEL.arguments(PREFIX), "--cassette", str(BY_MODEL.cassettes), "--json")
    finished = player.command(*words, cwd=tmp_path / "greeter", extra={"SCRIPTED_KEY": "", "GATEWRIGHT_CONSULT": ""})
    played = json.loads(finished.stdout.splitlines()[-1])
    assert (finished.returncode, played["status"]) == (0, "SUCCESS"), f"make recordings: {played['failure']}"
    assert any(b'"played":true' in path.read_bytes() for path in Path(played["bundle"]).glob("artifacts/*"))
    (tape,) = cassettes(Path(played["bundle"])).values()
    assert tape == next(BY_MODEL.cassettes.iterdir()).read_bytes()
