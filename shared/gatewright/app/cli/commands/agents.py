"""``agents``: which coding agents contracts may name here, and whether one could begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

agents = typer.Typer(no_args_is_help=True, help="The coding agents that may make a change, and the models that they ask.")


def register(app: typer.Typer) -> None:
    agents.command("list")(list_agents)
    agents.command("probe")(probe)
    agents.command("login-check")(login_check)
    app.add_typer(agents, name="agents")


@reported
def list_agents(json_output: JsonOutput = False) -> None:
    """The agents of agents.json, where they are installed on this host, and which were probed; the models of the worker."""
    from gatewright.agents.installation import find_agent
    from gatewright.agents.policy import load_agents
    from gatewright.agents.probed import probed_agents
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.settings import AgentSettings
    from gatewright.models.policy import load_models

    settings = AgentSettings.load()
    policy = load_agents(settings.policies)
    models = load_models(settings.policies).policy.route("worker")
    probed = {(each.agent, each.package_version): each.admitted for each in probed_agents(find_place().home)}
    rows: list[dict[str, Any]] = []
    for entry in policy.agents:
        found = find_agent(entry, settings.installations)
        rows.append(
            {
                "name": entry.name,
                "protocol": entry.protocol,
                "version": found.version if found else None,
                "usable": found is not None and found.version_holds,
                "folder": str(found.folder) if found else None,
                "versions": f">={entry.versions.since} <{entry.versions.before}",
                "admitted": probed.get((entry.name, found.version)) if found else None,
            }
        )
    if json_output:
        emit({"agents": rows, "models": list(models)})
        return
    name, protocol = (max((len(row[key]) for row in rows), default=0) for key in ("name", "protocol"))
    for row in rows:
        state = "not installed" if row["folder"] is None else f"{row['version']} in {row['folder']}"
        if row["folder"] is not None:
            state += f": {_standing(row)}"
        mark = {True: "✔", False: "✘", None: "·"}[row["admitted"] if row["usable"] else False]
        say(f"{mark} {row['name']:<{name}} {row['protocol']:<{protocol}} {printable(state)}")
    say(f"  models of the worker: {printable(', '.join(models) or 'none')}")


def _standing(row: Mapping[str, Any]) -> str:
    """Whether an agent that is here may be used, and what would have to be done first."""
    if not row["usable"]:
        return f"{row['versions']} is wanted"
    words = {
        True: "probed and admitted",
        False: "probed, and not admitted",
        None: f"`gatewright agents probe {row['name']}` first",
    }
    return words[row["admitted"]]


@reported
def probe(
    agent: str = typer.Argument(metavar="NAME", help="An agent of agents.json."),
    json_output: JsonOutput = False,
) -> None:
    """Try in the box what this agent does of what agents have been seen to do. It must have passed before its first use."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.app.cli.operations.agent_probe import probe_agent
    from gatewright.app.cli.outcome import Exit

    place = find_place()
    make_home(place.home)
    marks = {"passed": "✔", "failed": "✘", "recorded": "·"}
    found: dict[str, Any] = {}
    for found in probe_agent(agent, place.home):
        if "step" in found and not json_output:
            say(f"{marks[found['outcome']]} {found['step']:<18} {printable(found['found'])}")
    if json_output:
        emit(found)
    elif found["admitted"]:
        may = found["permitted"]
        say(f"  {printable(agent)} {printable(found['agent_version'])} is admitted: contracts with {', '.join(may['shells'])}")
        say(f"  tasks that only read: {'yes' if may['read_only'] else 'no'}")
    else:
        say(f"  {printable(agent)} {printable(found['agent_version'])} is not admitted")
    if not found["admitted"]:
        raise typer.Exit(Exit.FAILED)


@reported
def login_check(
    agent: str | None = typer.Argument(
        None, metavar="NAME", help="An agent of agents.json, or any; left out with --model: the model alone."
    ),
    model: str | None = typer.Option(None, metavar="NAME", help="The model, where it is not the worker's first."),
    offline: bool = typer.Option(False, "--offline", help="Do not ask the provider for the list of its models."),
    json_output: JsonOutput = False,
) -> None:
    """Check that a run with this agent could begin: its program and version, and its model's key, provider and name.

    The provider is asked for the list of its models. No prompt and nothing of a repository is sent.
    """
    import asyncio

    from gatewright.app.cli.operations.provider_check import check_provider
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.cli.run.asked import look_for_agent, missing_key, model_of
    from gatewright.order_form.run_options import ANY_AGENT

    entry, answer = None, ""
    if agent is None and model is not None:
        faults = missing_key(model)
    else:
        faults, entry = look_for_agent(None if agent == ANY_AGENT else agent, model)
    if not faults and not offline:
        name, api = (model_of(entry, model), entry.asks_by) if entry is not None else (model or "", None)
        faults, answer = asyncio.run(check_provider(name, api))
    if json_output:
        documents = [{"code": fault.code, "message": fault.message} for fault in faults]
        emit({"ok": not faults, "faults": documents, "provider": answer or None})
    else:
        for fault in faults:
            say(f"✘ {printable(fault.message)}")
        if answer:
            say(f"✔ {printable(answer)}")
        if not faults:
            say("✔ a run with it could begin")
    if faults:
        raise typer.Exit(Exit.INFRASTRUCTURE)
