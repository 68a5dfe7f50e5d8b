"""Checks on this host for certain failures of a run, with advice, before anything is started.

They cover programs, the sandbox, the agent and the key of the run. Work that is not committed is only reported.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.settings import AgentSettings, DoctorSettings
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import (
    CommandRefusedError,
    ConfigurationError,
    DeniedError,
    Fault,
    GatewrightError,
    GitError,
    SandboxError,
)
from gatewright.sandbox import make_sandbox, parse_command
from gatewright.sandbox.environments import Shown, environments_of
from gatewright.sandbox.programs import not_found

if TYPE_CHECKING:
    from gatewright.agents.policy import AgentEntry, Api

#: Advice for a user who has named no environment, or one that does not exist.
AUTO_ADVICE = "--env auto builds an environment from what the repository declares"
#: Protocols of a single vendor, with the package of its program.
_PACKAGES = {"codex-app-server": "@openai/codex", "claude": "@anthropic-ai/claude-code"}


def missing_programs(commands: Sequence[str], tests: Sequence[str], shown: Shown) -> Iterator[Fault]:
    """Yield a fault for every command whose program is not in the sandbox. Other shell syntax is left to the gates."""
    named = [(f"/executor/commands/{number}", "--exec", line) for number, line in enumerate(commands)]
    named += [(f"/acceptance_tests/{number}/cmd", "--test", line) for number, line in enumerate(tests)]
    for pointer, option, line in named:
        try:
            program = parse_command(line)[0]
        except CommandRefusedError:
            continue
        if words := not_found(program, shown):
            yield Fault(
                pointer, "program_not_found", f"{option}: {words}{_elsewhere(program)}{_environment_hint(program, shown)}"
            )


def _elsewhere(program: str) -> str:
    """Return the location of the program on the host: most often an environment that was not named."""
    found = shutil.which(program)
    if found is None:
        return ""
    folder = Path(found).parent
    hint = f": pass --env {shlex.quote(str(folder.parent))}" if folder.name == "bin" else ""
    return f"; yours is {found}{hint}"


def _environment_hint(program: str, shown: Shown) -> str:
    """Suggest ``--env auto`` if no environment was given."""
    # Imported late: only a refusal needs it.
    from gatewright.app.environments.prepare import is_known_program

    return f"; {AUTO_ADVICE}" if not environments_of(shown).folders and is_known_program(program) else ""


async def require_sandbox() -> None:
    """Raise SandboxError with the cause if commands cannot run on this host."""
    if DoctorSettings.load().sandbox == "none":
        return
    report = await make_sandbox("bubblewrap").probe()
    if not report.available:
        raise SandboxError(report.cause)


def uncommitted_words(repository: str, ref: str) -> str | None:
    """Return a warning about uncommitted work that a run from ``ref`` does not include.

    The result is None if all is committed, or if git cannot be asked.
    """
    folder = Path(repository)
    words = left_out_words(folder) if folder.is_dir() else None
    return f"warning: {words} and no part of the run, which starts from {ref}" if words is not None else None


def left_out_words(start: Path, *, beyond_index: bool = False) -> str | None:
    """Return how many files of the work tree are not committed (``beyond_index``: not staged); None for no file.

    The result is also None if git cannot be asked.
    """
    try:
        found = user_checkout(start).uncommitted(beyond_index=beyond_index)
    except GitError:
        return None
    total = found.changed + found.untracked
    if not total:
        return None
    noun = "1 file is" if total == 1 else f"{total} files are"
    parts = [f"{number} {what}" for number, what in ((found.changed, "changed"), (found.untracked, "untracked")) if number]
    return f"{noun} not {'staged' if beyond_index else 'committed'} ({', '.join(parts)})"


def missing_agent(name: str | None, model: str | None, *, plays: bool = False) -> list[Fault]:
    """Return the faults that keep a run with this agent and model from starting on this host.

    Args:
        name: the agent; None for any.
        model: the model; None for the worker's first.
        plays: recorded calls are replayed, so no key is needed.

    Raises:
        ConfigurationError: a policy file cannot be used.
    """
    return look_for_agent(name, model, plays=plays)[0]


def agent_model(entry: AgentEntry, model: str | None) -> str:
    """Return the model of the agent; ``model`` is the user's choice, if any. Raises as ``first_model`` does."""
    from gatewright.models.choice import first_model
    from gatewright.models.policy import load_models

    policy = load_models(AgentSettings.load().policies).policy
    return model or entry.model or first_model(policy, "worker", api=entry.asks_by)


def look_for_agent(name: str | None, model: str | None, *, plays: bool = False) -> tuple[list[Fault], AgentEntry | None]:
    """Return the faults of ``missing_agent``, and without faults the agent that could start."""
    from gatewright.agents.installation import usable_agent
    from gatewright.agents.policy import load_agents

    settings = AgentSettings.load()
    agents = load_agents(settings.policies)
    try:
        entries = (agents.agent(name),) if name is not None else agents.agents
    except GatewrightError as error:
        return [Fault("/executor/agent", error.reason, error.message)], None
    faults = []
    for entry in entries:
        try:
            usable_agent(entry, settings.installations)
        except GatewrightError as error:
            faults.append(Fault("/executor/agent", error.reason, f"{error.message}; {_install_hint(entry)}"))
            continue
        missing = [] if plays else missing_key(model or entry.model, entry.asks_by)
        if not missing:
            return [], entry
        faults += missing if name is not None else [_agent_fault(entry, fault) for fault in missing]
    return _faults_of_installed(faults), None


def _faults_of_installed(faults: list[Fault]) -> list[Fault]:
    """Return only the faults of installed agents, if any: an agent that is not installed blocks no other agent."""
    return [fault for fault in faults if fault.code != "agent_not_installed"] or faults


def _agent_fault(entry: AgentEntry, fault: Fault) -> Fault:
    return Fault(fault.pointer, fault.code, f"{entry.name}: {fault.message}")


def missing_key(model: str | None, api: Api | None = None) -> list[Fault]:
    """Return a fault if the key of the model's provider is missing; without a model, of the first one that ``api`` serves."""
    from gatewright.models.choice import first_model, provider_of
    from gatewright.models.policy import load_models

    policy = load_models(AgentSettings.load().policies).policy
    try:
        name = model or first_model(policy, "worker", api=api)
        # The gatekeeper judges names that are no model.
        provider = provider_of(policy, name)
        if provider is not None and provider.key is not None:
            provider.key.read()
    except (ConfigurationError, DeniedError) as error:
        return [Fault("/executor/model", error.reason, error.message)]
    return []


def _install_hint(entry: AgentEntry) -> str:
    from gatewright.agents.installation import SETTING

    package = _PACKAGES.get(entry.protocol)
    install = f"npm install --prefix ~/agents {package}, then " if package else ""
    return f"{install}export {SETTING}=~/agents, then gatewright agents login-check"
