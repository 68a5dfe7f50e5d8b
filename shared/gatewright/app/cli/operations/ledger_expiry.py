"""``gatewright gc --ledger``: as whom it connects, where the evidence is, and how it is told.

It needs two identities, and a person or a timer that has both: the gatekeeper's, which alone writes the ledger, and the
provisioner's, which alone can take something out of it. No process of the system has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatewright.app.cli import settings
from gatewright.app.cli.bundles.retention import make_collector
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.run.request import user_name
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.app.retention.ledger_expiry import ExpiredRun, LedgerExpiry, LedgerItem
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.stack import state
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.clock import SystemClock
from gatewright.errors import ConfigurationError, UnavailableError


async def expiry_round(store: str | None, keys: Path | None, *, yes: bool) -> tuple[Sequence[LedgerItem], Sequence[ExpiredRun]]:
    """The plan, and with ``yes`` what became of it. Raises GatewrightError."""
    place, days = find_place(), load_expiry(AgentSettings().policies).ledger_days()
    evidence = make_collector(RetentionPolicy(), store or settings.load().bundle_store)
    held = keys or bus_keys(place.home)
    bus = await JetStreamBus.connect(_address(place, held, "gatekeeper"), name="expiry")
    try:
        provisioner = await Connection.open(_address(place, held, PROVISIONER), name="expiry")
        try:
            expiry = LedgerExpiry(bus, provisioner, evidence, days, SystemClock(), user_name())
            plan = await expiry.plan()
            return plan, await expiry.carry_out(plan) if yes else ()
        finally:
            await provisioner.close()
    finally:
        await bus.close()


def _address(place: CommandContext, keys: Path, identity: str) -> BusAddress:
    """The bus that was named, or that of the home folder's stack, as ``identity``."""
    seed = seed_file(keys, identity)
    if not seed.is_file():
        raise ConfigurationError(
            f"letting runs expire needs the identities gatekeeper and {PROVISIONER}: {seed} is not there; "
            "name their folder with --keys",
            code="identity_missing",
        )
    if place.bus is not None:
        return replace(place.bus, seed=seed)
    running = state.read(place.home)
    if running is None:
        raise UnavailableError("no system runs here, and no bus was named (GATEWRIGHT_NATS_URL)", code="no_stack")
    return replace(running.address(identity), seed=seed)


def plan_lines(plan: Sequence[LedgerItem]) -> list[str]:
    """The plan for people: what goes first."""
    ranked = sorted(plan, key=lambda item: item.action == "keep")
    return [f"{item.action:<6} {item.run_id:<26} {item.entries:>5} entries  {item.why}" for item in ranked]


def closing_lines(plan: Sequence[LedgerItem], done: Sequence[ExpiredRun], *, carried_out: bool) -> list[str]:
    """What it comes to."""
    going = [item for item in plan if item.action == "expire"]
    if not going:
        return ["no run expires"]
    if not carried_out:
        return [f"{len(going)} of {len(plan)} would expire; do it with --yes"]
    removed = sum(each.removed for each in done)
    lines = [f"{sum(not each.code for each in done)} runs expired, {removed} entries went"]
    return lines + [f"left {each.item.run_id}: {each.code}: {each.message}" for each in done if each.code]


def result_document(plan: Sequence[LedgerItem], done: Sequence[ExpiredRun], *, carried_out: bool) -> dict[str, Any]:
    """The document of ``gc --ledger --json``."""
    return {
        "carried_out": carried_out,
        "items": [{"run_id": i.run_id, "action": i.action, "why": i.why, "entries": i.entries} for i in plan],
        "expired": [{"run_id": each.item.run_id, "removed": each.removed} for each in done if not each.code],
        "left": [{"run_id": each.item.run_id, "code": each.code, "message": each.message} for each in done if each.code],
    }
