"""Incomplete requests: whether they can be completed by a proposal, the proposal, and the options that confirm it.

A proposal is a run like any other that ends with ``proposal_unconfirmed``. Its bundle has the questions and answers. Nothing is
run from it until its requester passes the proposed options, or ``--yes``. Without a test command, the commands that test the
baseline are proposed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.run.request import Prepared, ways_named
from gatewright.app.cli.user_git import user_checkout
from gatewright.client.client import Client
from gatewright.contracts import RunRequest, codec
from gatewright.errors import GatewrightError, GitError, MalformedError
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row
from gatewright.run import events as e
from gatewright.run.kinds import KINDS
from gatewright.view.run_view import RunView
from gatewright.view.safe_text import printable

UNCONFIRMED = "proposal_unconfirmed"
#: The options that a proposal may contain, and their titles.
_TITLES = {"allow": "paths", "tests": "test", "commands": "executor", "agent": "agent", "model": "model"}
#: Name of the completed request among the artifacts of the pm's answer.
PROPOSAL = "proposal.json"


def leaves_open(options: RunOptions) -> bool:
    """Return whether ``options`` have a request, but not all of its scope, maker and tests. A search has none of them."""
    if KINDS[options.task_type].searches:
        return False
    makes = ways_named(options) or not KINDS[options.task_type].works
    fixed = (options.allow or options.allow_tests) and options.tests and makes
    return bool(options.request.strip()) and not fixed


def can_propose(*, plays: bool = False) -> bool:
    """Return whether the pm of a new local stack could ask a model, or replay one. Raises ConfigurationError."""
    # Imported late: only an incomplete request needs it.
    from gatewright.models.policy import load_models
    from gatewright.service.settings import ServiceSettings
    from gatewright.structured.session import has_key

    settings = ServiceSettings.load()
    return "pm" in settings.consult and (plays or has_key(load_models(settings.policies), "pm", settings.pool))


def key_lines() -> list[str]:
    """Return advice for a proposal on a host where no model can be asked. Raises ConfigurationError."""
    from gatewright.models.policy import load_models
    from gatewright.policy_files import EnvironmentKey
    from gatewright.service.settings import ServiceSettings

    policy = load_models(ServiceSettings.load().policies).policy
    wanted = {model.provider for name in policy.route("pm") if (model := policy.model(name)) is not None}
    keys = [each.key for each in policy.providers if each.name in wanted]
    names = [key.environment for key in keys if isinstance(key, EnvironmentKey)]
    return [
        "a model can propose what is missing, but none can be asked here:",
        f"  1. set a key: export {' or '.join(names) or 'what models.json names'}=...",
        "  2. run the same command again: it prints a proposal, and runs nothing until you confirm it",
    ]


async def with_proposal(view: RunView, client: Client) -> RunView:
    """Return the view of an ended run with the options of its proposal, if it ended with one."""
    failure = view.run.failure
    if failure is None or failure.code != UNCONFIRMED:
        return view
    for record in await client.events(view.run.run_id):
        payload = e.event_of(record)
        if not isinstance(payload, e.TaskFailed) or payload.error.consultation is None:
            continue
        for artifact in payload.error.consultation.artifacts:
            if artifact.name == PROPOSAL:
                data = await client.get_artifact(artifact.uri)
                asked, whole = view.run.request, codec.decode(data, RunRequest)
                return replace(view, proposed=tuple(_options(asked, whole)) if asked is not None else ())
    return view


def confirm_proposal(options: RunOptions, proposed: Sequence[str]) -> RunOptions:
    """Return ``options`` completed by the proposed ones."""
    names = {row(name).flag: name for name in _TITLES}
    given: dict[str, list[str]] = {name: [] for name in _TITLES}
    for option, value in zip(proposed[::2], proposed[1::2], strict=True):
        given[names[option]].append(value)
    changed: dict[str, Any] = {
        name: (*getattr(options, name), *values) if row(name).kind.many else (values or [getattr(options, name)])[0]
        for name, values in given.items()
    }
    named = tuple(path for path in given["allow"] if path not in options.allow)
    return replace(options, yes=False, proposed=named, **changed)


def with_origin(prepared: Prepared, view: RunView) -> Prepared:
    """Return the confirmed request with the origin of its proposal among its artifacts."""
    origin = (f"proposed by {view.run.run_id}", shlex.join(view.proposed).encode())
    return replace(prepared, attachments=(*prepared.attachments, origin))


def proposal_lines(proposed: Sequence[str]) -> list[str]:
    """Format a proposal."""
    titles = {row(name).flag: title for name, title in _TITLES.items()}
    pairs = zip(proposed[::2], proposed[1::2], strict=True)
    return [f"  {titles.get(option, option):9} {printable(value)}" for option, value in pairs]


def _options(asked: RunRequest, whole: RunRequest) -> Iterator[str]:
    """Yield the proposed options; those of the requester are in the command already."""
    values = {
        "allow": whole.allowed_paths if not asked.allowed_paths else (),
        "tests": [test.cmd for test in whole.acceptance_tests] if not asked.acceptance_tests else (),
    }
    how = whole.executor if asked.executor is None else None
    if how is not None:
        values["commands"] = how.commands
        values["agent"] = (how.agent or ANY_AGENT,) if how.kind == "agent" else ()
        values["model"] = (how.model,) if how.model is not None else ()
    for name, given in values.items():
        for value in given:
            yield from (row(name).flag, value)


async def proposed_tests(error: GatewrightError, options: RunOptions, here: Path) -> tuple[str, ...]:
    """Return the commands that test the baseline, the best first, if ``error`` reports a missing one; else none."""
    missing = isinstance(error, MalformedError) and any(fault.pointer == "/acceptance_tests" for fault in error.faults)
    repository = find_repository(_repository_place(options, here))
    if not missing or repository is None:
        return ()
    # Imported late: few runs need it.
    from gatewright.ecosystems.detection import proposed_commands
    from gatewright.git.host.tree_at import tree_at

    try:
        return await proposed_commands(tree_at(user_checkout(repository), options.ref))
    except GitError:  # the error, or later the run, reports it
        return ()


def _repository_place(options: RunOptions, here: Path) -> Path:
    return here / Path(options.repo).expanduser() if options.repo else here
