"""``agents``: coding agents that contracts may name on this host, and whether they are ready."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.errors import DeniedError, Fault, GatewrightError, UnavailableError
from gatewright.order_form.run_options import ANY_AGENT
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.agents.policy import Api
    from gatewright.models.policy import ModelEntry, Provider

agents = typer.Typer(no_args_is_help=True, help="List, probe and check coding agents and their models.")
_MODULE: Final = "gatewright.services.worker.agents.probe"
_LARGEST_LINE: Final = 1 << 20
_SECONDS: Final = 15.0
_MOST_BYTES: Final = 8 << 20
#: Maximum model names in a message.
_MOST_NAMES: Final = 10
_PLACE: Final = "/executor/model"


def register(app: typer.Typer) -> None:
    agents.command("list")(list_agents)
    agents.command("probe")(probe)
    agents.command("login-check")(login_check)
    app.add_typer(agents, name="agents")


@reported
def list_agents(json_output: JsonOutput = False) -> None:
    """List configured agents, their probes, and the worker's models."""
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
            state += f": {_describe_standing(row)}"
        mark = {True: "✔", False: "✘", None: "·"}[row["admitted"] if row["usable"] else False]
        write_line(f"{mark} {row['name']:<{name}} {row['protocol']:<{protocol}} {printable(state)}")
    write_line(f"  models of the worker: {printable(', '.join(models) or 'none')}")


def _describe_standing(row: Mapping[str, Any]) -> str:
    """Describe whether an installed agent may be used, and if not, what to do first."""
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
    agent: str = typer.Argument(metavar="NAME", help="Agent of agents.json"),
    json_output: JsonOutput = False,
) -> None:
    """Test an agent in the sandbox; required before its first use.

    The probe tries every action that agents are known to attempt.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home

    place = find_place()
    make_home(place.home)
    marks = {"passed": "✔", "failed": "✘", "recorded": "·"}
    found: dict[str, Any] = {}
    for found in probe_agent(agent, place.home):
        if "step" in found and not json_output:
            write_line(f"{marks[found['outcome']]} {found['step']:<18} {printable(found['found'])}")
    if json_output:
        emit(found)
    elif found["admitted"]:
        may, version = found["permitted"], printable(found["agent_version"])
        write_line(f"  {printable(agent)} {version} is admitted: contracts with {', '.join(may['shells'])}")
        write_line(f"  tasks that only read: {'yes' if may['read_only'] else 'no'}")
    else:
        write_line(f"  {printable(agent)} {printable(found['agent_version'])} is not admitted")
    if not found["admitted"]:
        raise typer.Exit(Exit.FAILED)


@reported
def login_check(
    agent: str | None = typer.Argument(
        None, metavar="NAME", help="Agent of agents.json, or any; omit it to check only --model"
    ),
    model: str | None = typer.Option(None, metavar="NAME", help="Model to check (default: first model of the worker)"),
    offline: bool = typer.Option(False, "--offline", help="Skip the provider's list of models"),
    json_output: JsonOutput = False,
) -> None:
    """Check the program, key and model of an agent.

    This command asks the provider for its list of models. It sends no prompt and nothing from a repository.
    """
    from gatewright.app.cli.run.preflight import agent_model, look_for_agent, missing_key

    entry, answer = None, ""
    if agent is None and model is not None:
        faults = missing_key(model)
    else:
        faults, entry = look_for_agent(None if agent == ANY_AGENT else agent, model)
    if not faults and not offline:
        name, api = (agent_model(entry, model), entry.asks_by) if entry is not None else (model or "", None)
        faults, answer = asyncio.run(check_provider(name, api))
    if json_output:
        documents = [{"code": fault.code, "message": fault.message} for fault in faults]
        emit({"ok": not faults, "faults": documents, "provider": answer or None})
    else:
        for fault in faults:
            write_line(f"✘ {printable(fault.message)}")
        if answer:
            write_line(f"✔ {printable(answer)}")
        if not faults:
            write_line("✔ a run with it could begin")
    if faults:
        raise typer.Exit(Exit.INFRASTRUCTURE)


def probe_agent(name: str, home: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of the probe: each step, and finally the admission, which is stored below ``home``.

    Raises:
        GatewrightError: the probe could not be made; its reason is that of the probe.
    """
    from gatewright.app.cli import settings
    from gatewright.app.stack.launch import interpreter

    environment = settings.inherited_environment() | {"GATEWRIGHT_HOME": str(home)}
    argv = interpreter(_MODULE, name)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment) as process:
        if process.stdout is None:
            raise UnavailableError("the probe was started without a pipe")
        try:
            yield from _documents(process.stdout)
        except BaseException:
            process.terminate()
            raise


def _documents(lines: Any) -> Iterator[dict[str, Any]]:
    from gatewright.foreign_documents import UnreadableDocumentError, read_json

    whole = False
    while line := lines.readline(_LARGEST_LINE):
        try:
            document = read_json(line, dict[str, Any])
        except UnreadableDocumentError as error:
            raise UnavailableError(f"the probe printed what is no record of it: {error}") from error
        if "code" in document:
            raise _error(document)
        whole = "admitted" in document
        yield document
    if not whole:
        raise UnavailableError("the probe ended too early; its output is above")


def _error(document: dict[str, Any]) -> GatewrightError:
    """Convert an error document. The family of its reason decides the exit code."""
    return DeniedError(str(document.get("message")), code=str(document["code"]))


async def check_provider(name: str, api: Api | None) -> tuple[list[Fault], str]:
    """Check the provider of the model ``name``: return its faults, or its answer.

    Args:
        name: the model.
        api: API to use; None for the provider's first one.

    Raises:
        ConfigurationError: a policy file, key or certificate cannot be used.
    """
    import aiohttp

    from gatewright.app.cli.settings import AgentSettings
    from gatewright.models.choice import provider_of
    from gatewright.models.policy import load_models

    policy = load_models(AgentSettings.load().policies).policy
    model, provider = policy.model(name), provider_of(policy, name)
    if model is None or provider is None:
        known = ", ".join(each.name for each in policy.models[:_MOST_NAMES])
        return [Fault(_PLACE, "model_unknown", f"models.json has no model {name[:128]!r}; it has {known}")], ""
    where = f"the provider {provider.name} ({provider.base_url})"
    try:
        status, body = await _list_models(provider, api or provider.apis[0])
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        words = f"{where} cannot be reached: {type(error).__name__}; is its server running, and is base_url right?"
        return [Fault(_PLACE, "model_unavailable", words)], ""
    if status in {401, 403}:
        return [Fault(_PLACE, "model_key_refused", f"{where} does not take its key ({status})")], ""
    names = _names_of(body) if status == 200 else []
    if not names:
        return [], f"{where} answers ({status}); it lists no models, so that the name was not checked"
    return _check_name(model, names, where)


async def _list_models(provider: Provider, api: Api) -> tuple[int, bytes]:
    import aiohttp

    from gatewright.models.apis.endpoints import MESSAGES_VERSION, key_header, models_url

    key = await asyncio.to_thread(provider.key.read) if provider.key is not None else ""
    headers = {**provider.headers, "Accept": "application/json", **(key_header(api, key) if key else {})}
    if api == "messages":
        headers.setdefault("anthropic-version", MESSAGES_VERSION)
    context = await asyncio.to_thread(ssl.create_default_context, cafile=provider.ca_file)
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
        session.get(
            models_url(provider.base_url, api), headers=headers, proxy=provider.proxy, ssl=context, allow_redirects=False
        ) as reply,
    ):
        return reply.status, await reply.content.read(_MOST_BYTES)


def _names_of(body: bytes) -> list[str]:
    """Return the names in a list of models of OpenAI and Anthropic (``data``) or Gemini (``models``); empty for other data."""
    from gatewright.foreign_documents import UnreadableDocumentError, read_json

    try:
        document = read_json(body)
    except UnreadableDocumentError:
        return []
    listed: Any = (document.get("data") or document.get("models")) if isinstance(document, dict) else None
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    names = (each.get("id") or each.get("name") for each in entries)
    return [name.removeprefix("models/") for name in names if isinstance(name, str)]


def _check_name(model: ModelEntry, names: list[str], where: str) -> tuple[list[Fault], str]:
    wanted = model.upstream_name
    # A name without a date or tag means the newest one: claude-sonnet-4-5, qwen2.5-coder.
    if any(name == wanted or name.startswith((f"{wanted}-", f"{wanted}:")) for name in names):
        return [], f"{where} answers, and has the model {wanted}"
    some = ", ".join(sorted(names)[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    words = f"{where} has no model {wanted}, which is the name of {model.name} there; it has {some}. Correct `upstream`"
    return [Fault(_PLACE, "model_unknown", words)], ""
