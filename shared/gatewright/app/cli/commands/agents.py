"""``agents``: which coding agents contracts may name here, and whether one could begin."""

from __future__ import annotations

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, printable, reported, say

agents = typer.Typer(no_args_is_help=True, help="The coding agents that may make a change, and the models that they ask.")


def register(app: typer.Typer) -> None:
    agents.command("list")(list_agents)
    agents.command("login-check")(login_check)
    app.add_typer(agents, name="agents")


@reported
def list_agents(json_output: JsonOutput = False) -> None:
    """The agents of agents.json, and where they are installed on this host; the models of the worker, in order."""
    from gatewright.agents.installation import find_agent
    from gatewright.agents.policy import load_agents
    from gatewright.app.cli.settings import AgentSettings
    from gatewright.models.policy import load_models

    settings = AgentSettings()
    policy = load_agents(settings.policies).policy
    models = load_models(settings.policies).policy.route("worker")
    rows = []
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
            }
        )
    if json_output:
        emit({"agents": rows, "models": list(models)})
        return
    for row in rows:
        state = "not installed" if row["folder"] is None else f"{row['version']} in {row['folder']}"
        fits = "" if row["usable"] or row["folder"] is None else f", and {row['versions']} is wanted"
        say(f"{'✔' if row['usable'] else '✘'} {row['name']:<12} {row['protocol']:<17} {printable(state + fits)}")
    say(f"  models of the worker: {printable(', '.join(models) or 'none')}")


@reported
def login_check(
    agent: str = typer.Argument("any", metavar="NAME", help="An agent of agents.json, or any."),
    model: str | None = typer.Option(None, metavar="NAME", help="The model, where it is not the worker's first."),
    json_output: JsonOutput = False,
) -> None:
    """Whether a run with this agent could begin here: its program, its version, the key of the model. Nothing is sent."""
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.cli.run.asked import missing_agent
    from gatewright.app.cli.run.request import ANY_AGENT

    faults = missing_agent(None if agent == ANY_AGENT else agent, model)
    if json_output:
        emit({"ok": not faults, "faults": [{"code": fault.code, "message": fault.message} for fault in faults]})
    else:
        for fault in faults:
            say(f"✘ {printable(fault.message)}")
        if not faults:
            say("✔ a run with it could begin; whether the provider takes the key shows with the first call")
    if faults:
        raise typer.Exit(Exit.INFRASTRUCTURE)
