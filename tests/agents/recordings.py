"""Makes the demo's recorded runs anew (``make recordings``): on a real stack, with a scripted model in the provider's place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from examples.demo.recording import BY_CODEX, BY_MODEL, CHANGED, GREETER, RecordedRun, make_policies, make_project
from gatewright.agents.installation import SETTING, usable_agent
from gatewright.agents.policy import load_agents
from gatewright.resources import policy_directory
from tests.models.provider import ScriptedProvider
from tests.models.turns import Edit, Say, Script
from tests.worker.agents.admissions import admit

TOP = Path(__file__).resolve().parents[2]

AGENTS = TOP / ".agents"
SCRIPTS: Mapping[str, Script] = {
    BY_MODEL.folder: [Say(f"Here is the whole file.\n\n```python\n# file: greeter.py\n{CHANGED}```\n", pieces=1)],
    BY_CODEX.folder: [Edit("/workspace/greeter.py", GREETER, CHANGED), Say("It greets in both languages now.")],
}


def main() -> int:
    """Both of them."""
    for each in (BY_MODEL, BY_CODEX):
        with tempfile.TemporaryDirectory(prefix="gatewright-recording-") as folder, ScriptedProvider(SCRIPTS) as provider:
            record(each, Path(folder), provider)
        print(f"recorded: {each.cassettes}")  # noqa: T201 - a command's output
    return 0


def record(each: RecordedRun, folder: Path, provider: ScriptedProvider) -> None:
    project, policies, home = folder / "greeter", folder / "policies", folder / "home"
    make_project(project)
    make_policies(policies)
    models = json.loads((policies / "models.json").read_text())
    models["providers"][0]["base_url"] = f"{provider.root}/s/{each.folder}/v1"
    (policies / "models.json").write_text(json.dumps(models))
    shutil.rmtree(each.cassettes, ignore_errors=True)
    each.cassettes.mkdir()
    if each is BY_CODEX:
        codex = usable_agent(load_agents(policy_directory()).agent("codex"), (AGENTS,))
        # What the probe finds of it has tests of its own.
        admit(home, codex)
        (each.cassettes / "agent.json").write_text(json.dumps({"agent": "codex", "version": codex.version}) + "\n")
    own = {"GATEWRIGHT_HOME": str(home), "GATEWRIGHT_POLICIES": str(policies), SETTING: str(AGENTS)}
    words = ["run", *each.arguments(Path(sys.prefix)), "--json"]
    argv = [sys.executable, "-m", "gatewright.app.cli.main", *words]
    done = subprocess.run(argv, cwd=project, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout.splitlines()[-1])
    if result["status"] != "SUCCESS":
        raise SystemExit(f"{each.folder} was not recorded: {result['failure']}\n{done.stderr}")
    for tape in Path(result["bundle"]).glob("cassettes/*"):
        shutil.copyfile(tape, each.cassettes / tape.name.partition(".")[2])


if __name__ == "__main__":
    raise SystemExit(main())
