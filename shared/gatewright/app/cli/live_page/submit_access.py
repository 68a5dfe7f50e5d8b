"""What the form of the live page needs: a publisher's connection, and the gates' answer as ``policy explain`` gives it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gatewright.app.cli.checking.asking import ChangeLocation, ask_gates, read_contract
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.hosts.connection import HostAccess
from gatewright.app.console.submitting import SubmitAccess
from gatewright.bus.identities import DEFAULT_PUBLISHER, is_publisher, load
from gatewright.contracts import GateReport, RoleContractSummary, RunRequest, TaskContract, codec
from gatewright.errors import ConfigurationError
from gatewright.ledger.role_bindings import role_contract_summary


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
    return SubmitAccess(access.client, partial(_explained, publisher=name))


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """What the form shows of a request before it is sent."""

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    role: RoleContractSummary


def _explained(request: RunRequest, publisher: str) -> ExplainedRequest:
    contract = read_contract(request)
    answer = ask_gates(contract, ChangeLocation(), judge_policy=True, publisher=publisher, kind="request")
    role = role_contract_summary(codec.decode(contract, TaskContract))
    return ExplainedRequest(answer.reports, answer.unjudged, role)
