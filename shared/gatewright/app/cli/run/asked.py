"""Whether the agent and the key that a run wants are on this host, before anything is started; and what to do."""

from __future__ import annotations

from gatewright.agents.installation import SETTING, usable_agent
from gatewright.agents.policy import AgentEntry, Api, load_agents
from gatewright.app.cli.settings import AgentSettings
from gatewright.errors import ConfigurationError, DeniedError, Fault, GatewrightError
from gatewright.models.choice import first_model, provider_of
from gatewright.models.policy import load_models

#: The protocols that are one vendor's, with the package that has the program.
_PACKAGES = {"codex-app-server": "@openai/codex", "claude": "@anthropic-ai/claude-code"}


def missing_agent(name: str | None, model: str | None, *, plays: bool = False) -> list[Fault]:
    """What keeps a run with this agent (None: any) and model (None: the worker's first) from beginning on this host.
    ``plays``: what was recorded is played, so no key is needed.

    Raises ConfigurationError for a policy file that cannot be used.
    """
    return look_for_agent(name, model, plays=plays)[0]


def model_of(entry: AgentEntry, model: str | None) -> str:
    """The model that the agent asks where the user names ``model`` or none. Raises what ``first_model`` does."""
    policy = load_models(AgentSettings.load().policies).policy
    return model or entry.model or first_model(policy, "worker", api=entry.asks_by)


def look_for_agent(name: str | None, model: str | None, *, plays: bool = False) -> tuple[list[Fault], AgentEntry | None]:
    """The faults as in ``missing_agent``, and the agent that could begin where there are none."""
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
            faults.append(Fault("/executor/agent", error.reason, f"{error.message}; {_how(entry)}"))
            continue
        missing = [] if plays else missing_key(model or entry.model, entry.asks_by)
        if not missing:
            return [], entry
        faults += missing if name is not None else [_of(entry, fault) for fault in missing]
    return _of_those_here(faults), None


def _of_those_here(faults: list[Fault]) -> list[Fault]:
    """What is wrong with agents that are here comes alone: what is not installed keeps no run of another agent."""
    return [fault for fault in faults if fault.code != "agent_not_installed"] or faults


def _of(entry: AgentEntry, fault: Fault) -> Fault:
    return Fault(fault.pointer, fault.code, f"{entry.name}: {fault.message}")


def missing_key(model: str | None, api: Api | None = None) -> list[Fault]:
    """Whether the key of the model's provider can be had here; without a model, of the first that is asked by ``api``."""
    policy = load_models(AgentSettings.load().policies).policy
    try:
        name = model or first_model(policy, "worker", api=api)
        # A name that is no model is for the gatekeeper to judge.
        provider = provider_of(policy, name)
        if provider is not None and provider.key is not None:
            provider.key.read()
    except (ConfigurationError, DeniedError) as error:
        return [Fault("/executor/model", error.reason, error.message)]
    return []


def _how(entry: AgentEntry) -> str:
    package = _PACKAGES.get(entry.protocol)
    install = f"npm install --prefix ~/agents {package}, then " if package else ""
    return f"{install}export {SETTING}=~/agents, then gatewright agents login-check"
