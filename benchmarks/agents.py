"""What Gatewright costs around a real coding agent: ``python -m benchmarks.agents FOLDER``, where ``make agents`` put Codex.

1. A turn of Codex bare, the same in the box with the gateway, and as a whole run: time and processor time, in turns.
2. A runaway Codex: how far beyond its limit it came, and how long it lived after that.
3. Eight of them at once in one worker: memory beside their own.
The model is a script on loopback. Memory is proportional (PSS), so that other work on the machine does not spoil it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.agent_memory import eight_at_once
from benchmarks.agent_model import BenchmarkModel
from benchmarks.agent_runaway import runaways
from benchmarks.agent_turns import turns
from benchmarks.workload import make_repository
from gatewright import Client
from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import load_agents
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.resources import policy_directory
from gatewright.services.worker.agents.probe.admission import admission_of, keep
from gatewright.services.worker.agents.probe.result import StepResult

AGENT = "codex"
AT_ONCE = 8
console = Console(highlight=False, soft_wrap=True)


@contextlib.asynccontextmanager
async def agents_stack(root: Path, model: BenchmarkModel, agent: InstalledAgent) -> AsyncIterator[Supervisor]:
    """The embedded stack, ready, with one worker that holds so many tasks at once; its models are ``model``."""
    policies, home = Path(shutil.copytree(policy_directory(), root / "policies")), root / "home"
    (policies / "models.json").write_text(model.policy().model_dump_json())
    make_home(home)
    # Its probe is a measurement of its own; what is asked of it here is allowed to an agent that passed.
    passed = (StepResult(step="handshake", outcome="passed", found="benchmark"),)
    keep(home / ADMISSIONS, admission_of(agent, agent.version, passed, "2026-01-01T00:00:00.000Z"))
    environment = {
        "PATH": os.environ["PATH"],
        "GATEWRIGHT_POLICIES": str(policies),
        "GATEWRIGHT_AGENT_INSTALLATIONS": str(agent.folder),
        "GATEWRIGHT_CONCURRENCY": str(AT_ONCE),
    }
    stack = Supervisor(StackOptions(home=home, base_environment=environment, workers=1, shared=True))
    await stack.start()
    try:
        await stack.ready(60.0)
        yield stack
    finally:
        await stack.stop()


async def measure(root: Path, folder: Path, samples: int) -> None:
    agent = usable_agent(load_agents(policy_directory()).agent(AGENT), (folder,))
    repository = make_repository(root / "repository")
    async with (
        BenchmarkModel().serving() as model,
        agents_stack(root, model, agent) as stack,
        Client.connect(stack.address) as client,
    ):
        console.print(f"{AGENT} {agent.version}, {samples} of each")
        for result in (
            await turns(root, agent, model, stack, client, repository, samples),
            await runaways(agent, model, stack, client, repository, samples),
            await eight_at_once(agent, model, stack, client, repository, AT_ONCE),
        ):
            for line in result.lines():
                console.print(line)


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".agents"), help="where agents are installed")
    parser.add_argument("--samples", type=int, default=5, help="how often each is measured")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-agents-") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(measure(Path(folder), options.folder.resolve(), options.samples))


if __name__ == "__main__":
    main(sys.argv[1:])
