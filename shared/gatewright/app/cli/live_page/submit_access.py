"""What the form of the live page needs: a publisher's connection, and the gates' answer as ``policy explain`` gives it."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gatewright.app.cli.checking.asking import ChangeLocation, ask_gates, read_contract
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.connection import HostAccess
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.console.submitting import SubmitAccess
from gatewright.app.stack.state import read
from gatewright.bus.identities import DEFAULT_PUBLISHER, is_publisher, load
from gatewright.contracts import GateReport, RoleContractSummary, RunRequest, TaskContract, codec
from gatewright.contracts.vocabulary import Environment
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.mirror import Mirrors
from gatewright.ledger.role_bindings import role_contract_summary
from gatewright.tasks.inputs import EVERY, environment_prefix

#: Environments that the form offers.
_MOST_ENVIRONMENTS = 200


def submit_access(place: CommandContext, publisher: str | None, seed: Path | None) -> SubmitAccess | None:
    """As this publisher of a stack on this host; of a bus that was named with ``seed``, and None where that is missing.

    Raises ConfigurationError (``identity_invalid``) for the seed of an identity that publishes nothing.
    """
    if place.bus is not None:
        if seed is None:
            return None
        if not is_publisher(named := load(seed).identity):
            raise ConfigurationError(
                f"{seed} is the seed of {named}: runs are submitted by a publisher", code="identity_invalid"
            )
        place = replace(place, bus=replace(place.bus, seed=seed))
    name = publisher or DEFAULT_PUBLISHER
    access = HostAccess(place, publisher=name, requested_by="live page")
    here = None if place.bus is not None else place.home
    explain = partial(_explain_request, publisher=name, home=here)
    return SubmitAccess(access.client, explain, partial(_offered_environments, here), _branches)


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """What the form shows of a request before it is sent."""

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    role: RoleContractSummary
    environment_fault: str = ""


def _explain_request(request: RunRequest, publisher: str, home: Path | None) -> ExplainedRequest:
    contract = read_contract(request)
    answer = ask_gates(contract, ChangeLocation(), judge_policy=True, publisher=publisher, kind="request")
    role = role_contract_summary(codec.decode(contract, TaskContract))
    fault, unjudged = _judged_environment(request.environment, _stack_environments(home))
    return ExplainedRequest(answer.reports, (*answer.unjudged, *unjudged), role, fault)


def _judged_environment(environment: Environment | None, listed: tuple[str, ...] | None) -> tuple[str, tuple[str, ...]]:
    """Why the environment is refused, and what could not be judged of it here."""
    if environment is None:
        return "", ()
    if listed is None:
        return "", ("the environment: this page cannot see which environments the system offers; a run asks it",)
    try:
        for each in environment.all:
            environment_prefix(each, tuple(map(Path, listed)))
    except DeniedError as error:
        shown = ", ".join(each for each in listed if not each.endswith(EVERY)) or "none"
        return f"{error.message}; offered: {shown}. Offer it with: gatewright up --env FOLDER", ()
    return "", ()


def _stack_environments(home: Path | None) -> tuple[str, ...] | None:
    """What the stack on this host offers, as its state has it; None where there is none."""
    state = read(home) if home is not None else None
    return state.environments if state is not None else None


def _offered_environments(home: Path | None) -> tuple[str, ...] | None:
    """The single environments to choose from; those of a ``FOLDER/*`` by the folders in it."""
    listed = _stack_environments(home)
    if listed is None:
        return None
    found: list[str] = []
    for each in map(Path, listed):
        found += sorted(str(path) for path in each.parent.glob(EVERY) if path.is_dir()) if each.name == EVERY else [str(each)]
    return tuple(found[:_MOST_ENVIRONMENTS])


def _branches(repository: str) -> tuple[str, ...]:
    """The branches of a repository, by their full names. Raises GatewrightError."""
    with tempfile.TemporaryDirectory(prefix="gatewright-branches-") as scratch:
        access = RepositoryAccess.load(AgentSettings.load().policies, "operator")
        return asyncio.run(_read_branches(Mirrors(Path(scratch), access=access), repository))


async def _read_branches(mirrors: Mirrors, repository: str) -> tuple[str, ...]:
    return await (await mirrors.open(repository)).branches()
