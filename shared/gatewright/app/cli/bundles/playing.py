"""A stack on which nothing but recorded calls to models can be played: where a run is done again whose models were asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import SETTING, find_agent
from gatewright.agents.policy import AgentEntry, load_agents
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.home import make_home
from gatewright.app.cli.output import note
from gatewright.app.cli.runs.sources import RUNS_FOLDER
from gatewright.app.cli.session import StackSession, for_one_run
from gatewright.app.cli.settings import AgentSettings, inherited_environment, repository_keys
from gatewright.app.replay.recorded_calls import asked_tasks
from gatewright.app.replay.reexecution import RecordedRun, recorded_run
from gatewright.app.stack.supervisor import StackOptions
from gatewright.client.client import Client
from gatewright.errors import MalformedError, UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import tell
from gatewright.ledger.expiry import check_whole
from gatewright.run.events import ABOUT_BUNDLES
from gatewright.run.state import Run

#: Where reports on runs that were done again lie in the home folder, and the bundles of such runs: never in a bundle, which is
#: closed. While they run, the home folders of their stacks lie there, too.
REEXECUTIONS: Final = "reexecutions"
#: With these codes a run ends whose agent could not be started: nothing was done again.
UNPLAYED: Final = frozenset({"agent_not_admitted", "agent_not_permitted", "sandbox_unavailable"})


def require_playable(place: CommandContext, recorded: RecordedRun) -> None:
    """Raises MalformedError (``not_reexecutable``) where another host does the work, UnavailableError (``agent_not_installed``)
    when an agent that worked is not here in that very version, with the command that installs it.
    """
    if place.bus is not None:
        words = "recorded calls are played by a stack of this host: unset GATEWRIGHT_NATS_URL, and name the bundle"
        raise MalformedError(words, code="not_reexecutable")
    settings = AgentSettings.load()
    agents = load_agents(settings.policies)
    for each in recorded.agents:
        entry = agents.agent(each.agent)
        found = find_agent(entry, settings.installations)
        if found is None or found.version != each.package_version:
            here = f"{found.version or 'of no version'} is here" if found is not None else "none is installed here"
            words = (
                f"the run was made by {each.agent} {each.package_version}, and {here}; {_install(entry, each.package_version)}"
            )
            raise UnavailableError(words, code="agent_not_installed")


def _install(entry: AgentEntry, version: str) -> str:
    package = entry.package.removeprefix("node_modules/").removesuffix("/package.json")
    return f"npm install --prefix ~/agents {package}@{version}, then export {SETTING}=~/agents"


@contextlib.asynccontextmanager
async def playing_stack(
    place: CommandContext, bundle: Path, recorded: RecordedRun, environments: tuple[Path, ...]
) -> AsyncIterator[StackSession]:
    """A stack for one run whose roles play the cassettes of ``bundle``. It has no key of a provider, and its own home folder.

    The bundle of the run is left in the folder ``reexecutions`` of the home folder.
    """
    top = place.home / REEXECUTIONS
    make_home(place.home)
    top.mkdir(exist_ok=True)
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".playing-", dir=top))
    try:
        if (place.home / ADMISSIONS).is_dir():
            await asyncio.to_thread(shutil.copytree, place.home / ADMISSIONS, home / ADMISSIONS)
        stack = StackOptions(
            home=home,
            base_environment={
                **inherited_environment(),
                "GATEWRIGHT_CASSETTE": str(bundle),
                "GATEWRIGHT_CONSULT": ",".join(recorded.roles),
                "GATEWRIGHT_KEY": str(place.key),
            },
            repository_keys=repository_keys(),
            workers=os.cpu_count() or 1,
            environments=environments,
            adopt=True,
        )
        async with for_one_run(None, stack, note) as session:
            yield session
        for made in (home / RUNS_FOLDER).glob("run-*"):
            if (made / layout.MANIFEST).exists():
                made.rename(top / made.name)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def recorded_of(client: Client, run: Run) -> RecordedRun:
    """What the ended ``run`` asked and decided. Raises BusError, ArtifactError, MalformedError."""
    records = await client.events(run.run_id)
    check_whole(run, records[0].seq)
    history = tell(run, [record for record in records if record.event_type not in ABOUT_BUNDLES])
    wanted = [each for task in asked_tasks(history) for each in (task.calls, task.admission) if each is not None]
    data = {each.uri: await client.get_artifact(each.uri) for each in wanted}
    return recorded_run(history, lambda artifact: data[artifact.uri])
