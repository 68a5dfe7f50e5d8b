"""What commands print of the delivered policies, schemas, prompts, agents and the bus."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from gatewright.resources import schema_directory
from tests.golden.conftest import RecordedHome
from tests.golden.transcripts import ROOT

pytestmark = pytest.mark.every_case

CONTRACT = str(ROOT / "examples" / "contract.json")
REQUEST = str(ROOT / "examples" / "request.json")
INVALID = str(next(iter(sorted((schema_directory() / "examples" / "run_request.v1" / "invalid").glob("*.json")))))
#: As text and as JSON.
COMMANDS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "schema-list": ("schema", "list"),
    "schema-show": ("schema", "show", "abort_request.v1"),
    "schema-show-unknown": ("schema", "show", "nothing.v1"),
    "schema-validate": ("schema", "validate", REQUEST, "--schema", "run_request.v1"),
    "schema-validate-invalid": ("schema", "validate", INVALID, "--schema", "run_request.v1"),
    "policy-show": ("policy", "show"),
    "policy-explain": ("policy", "explain", CONTRACT),
    "prompts-show-unknown": ("prompts", "show", "cook"),
    "prompts-show-pm": ("prompts", "show", "pm", "--contract", REQUEST),
    "prompts-show-techlead": ("prompts", "show", "techlead", "--contract", CONTRACT),
    "prompts-show-worker": ("prompts", "show", "worker", "--contract", CONTRACT),
    "prompts-show-worker-files": ("prompts", "show", "worker", "--contract", CONTRACT, "--form", "files"),
    "prompts-show-reviewer": ("prompts", "show", "reviewer", "--contract", CONTRACT),
    "agents-list": ("agents", "list"),
    "topology": ("topology",),
    "topology-partitions": ("topology", "--partitions", "3", "--pool", "gpu"),
    "topology-json": ("topology", "--format", "json"),
    "topology-unknown": ("topology", "--format", "nothing"),
    "identities-list-without-keys": ("identities", "list"),
    "image-unknown": ("image", "nothing"),
    "completion": ("completion", "bash"),
    "unknown-command": ("nothing",),
    "unknown-option": ("runs", "--nothing"),
}
#: Commands that know no JSON.
PLAIN = ("version", "unknown-command", "unknown-option")
#: When a gate judged, and how long it took.
_MOMENT = re.compile(r'"(evaluated_at|duration_ms)": [^,\n]+')


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_outputs_about_settings(command: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    words = COMMANDS[command]
    # No agent is found where there are no programs.
    surroundings = {"PATH": str(recorded_home.folder)} if command == "agents-list" else {}
    said = recorded_home.run(*words, **surroundings)
    if command not in PLAIN:
        said += recorded_home.run(*words, "--json", **surroundings)
    assert _MOMENT.sub(r'"\1": "<moment>"', said) == text
