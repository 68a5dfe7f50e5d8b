"""``gatewright gc --ledger``: as whom it connects, where the evidence is, and how it is told.

It needs two identities, and a person or a process of its own that has both: the gatekeeper's, which alone writes the ledger,
and the provisioner's, which alone can take something out of a stream that keeps. No role has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gatewright.app.cli import settings
from gatewright.app.cli.bundles.retention import make_collector
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.cli.user_git import user_checkout, user_name
from gatewright.app.retention.branch_expiry import BranchItem
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.app.retention.ledger_expiry import LedgerItem
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.retention.policy_round import PolicyRound, RoundOutcome
from gatewright.app.stack import state
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.clock import SystemClock, timestamp
from gatewright.errors import ConfigurationError, UnavailableError

T = TypeVar("T")


async def expiry_round(
    store: str | None, keys: Sequence[Path], *, yes: bool, repositories: Sequence[Path] = ()
) -> RoundOutcome:
    """The plan, and with ``yes`` what became of it. Raises GatewrightError."""
    place, policy = find_place(), load_expiry(AgentSettings.load().policies).of_bus()
    evidence = make_collector(RetentionPolicy(), store or settings.load().bundle_store)
    held = keys or [bus_keys(place.home)]
    bus = await JetStreamBus.connect(_address(place, held, "gatekeeper"), name="expiry")
    try:
        provisioner = await Connection.open(_address(place, held, PROVISIONER), name="expiry")
        try:
            checkouts = tuple(user_checkout(each) for each in repositories)
            expiry = PolicyRound(bus, provisioner, evidence, policy, SystemClock(), user_name(), checkouts)
            return await expiry.play(yes=yes)
        finally:
            await provisioner.close()
    finally:
        await bus.close()


def _address(place: CommandContext, keys: Sequence[Path], identity: str) -> BusAddress:
    """The bus that was named, or that of the home folder's stack, as ``identity``."""
    files = [file for folder in keys for file in (seed_file(folder, identity), folder / f"{identity}.creds")]
    seed = next((file for file in files if file.is_file()), None)
    if seed is None:
        raise ConfigurationError(
            f"letting runs expire needs the identities gatekeeper and {PROVISIONER}: {files[0]} is not there; "
            "name their folder with --keys",
            code="identity_missing",
        )
    if place.bus is not None:
        return replace(place.bus, seed=seed)
    running = state.read(place.home)
    if running is None:
        raise UnavailableError("no system runs here, and no bus was named (GATEWRIGHT_NATS_URL)", code="no_stack")
    return replace(running.address(identity), seed=seed)


def round_lines(outcome: RoundOutcome, *, carried_out: bool) -> list[str]:
    """The plan for people, what goes first, and what it comes to."""
    lines = _run_lines(outcome.runs or (), outcome.expired_runs, carried_out=carried_out) if outcome.runs is not None else []
    if (letters := outcome.letters) is not None:
        went = sum(not each.code for each in outcome.expired_letters)
        words = f"{went} went" if carried_out else f"{len(letters.items)} would go"
        lines.append(f"dead letters: {words}, {letters.needed} stay for their runs, {letters.young} for their age")
        lines += _left_lines(outcome.expired_letters, lambda item: f"dead letter {item.sequence}")
    if (artifacts := outcome.artifacts) is not None:
        went = sum(not each.code for each in outcome.expired_artifacts)
        words = f"{went} went" if carried_out else f"{len(artifacts.items)} would go"
        lines.append(f"artifacts: {words}, {artifacts.needed} are referred to, {artifacts.young} are too young")
        lines += _left_lines(outcome.expired_artifacts, lambda item: f"artifact {item.name}")
    if outcome.branches is not None:
        lines += _branch_lines(outcome.branches, outcome.expired_branches, carried_out=carried_out)
    going = (outcome.letters.items if outcome.letters else ()), (outcome.artifacts.items if outcome.artifacts else ())
    if any(going) and not carried_out:
        lines.append("nothing has gone; do it with --yes")
    return lines


def _run_lines(plan: Sequence[LedgerItem], done: Sequence[ItemOutcome[LedgerItem]], *, carried_out: bool) -> list[str]:
    ranked = sorted(plan, key=lambda item: item.action == "keep")
    lines = [f"{item.action:<6} {item.run_id:<26} {item.entries:>5} entries  {item.why}" for item in ranked]
    going = [item for item in plan if item.action == "expire"]
    if not going:
        return [*lines, "no run expires"]
    if not carried_out:
        return [*lines, f"{len(going)} of {len(plan)} would expire; do it with --yes"]
    removed = sum(each.removed for each in done)
    lines.append(f"{sum(not each.code for each in done)} runs expired, {removed} entries went")
    return lines + _left_lines(done, lambda item: item.run_id)


def _branch_lines(plan: Sequence[BranchItem], done: Sequence[ItemOutcome[BranchItem]], *, carried_out: bool) -> list[str]:
    going = sum(item.action == "expire" for item in plan)
    went = sum(not each.code for each in done)
    words = f"{went} went" if carried_out else f"{going} would go"
    lines = [f"branches: {words}, {len(plan) - going} stay"]
    return lines + _left_lines(done, lambda item: f"gatewright/{item.branch.name}")


def _left_lines(done: Sequence[ItemOutcome[T]], name: Callable[[T], str]) -> list[str]:
    return [f"left {name(each.item)}: {each.code}: {each.message}" for each in done if each.code]


def result_document(outcome: RoundOutcome, *, carried_out: bool) -> dict[str, Any]:
    """The document of ``gc --ledger --json``."""
    document: dict[str, Any] = {
        "carried_out": carried_out,
        "items": [
            {"run_id": each.run_id, "action": each.action, "why": each.why, "entries": each.entries}
            for each in outcome.runs or ()
        ],
        "expired": [{"run_id": each.item.run_id, "removed": each.removed} for each in outcome.expired_runs if not each.code],
        "left": _left_entries(outcome.expired_runs, lambda item: {"run_id": item.run_id}),
    }
    if (artifacts := outcome.artifacts) is not None:
        document["artifacts"] = {
            "items": [{"sha256": item.name, "stored_at": timestamp(item.use.at)} for item in artifacts.items],
            "needed": artifacts.needed,
            "young": artifacts.young,
            "expired": [each.item.name for each in outcome.expired_artifacts if not each.code],
            "left": _left_entries(outcome.expired_artifacts, lambda item: {"sha256": item.name}),
        }
    if (letters := outcome.letters) is not None:
        document["dead_letters"] = {
            "items": [item.sequence for item in letters.items],
            "needed": letters.needed,
            "young": letters.young,
            "expired": [each.item.sequence for each in outcome.expired_letters if not each.code],
            "left": _left_entries(outcome.expired_letters, lambda item: {"sequence": item.sequence}),
        }
    if (branches := outcome.branches) is not None:
        document["branches"] = {
            "items": [{"run_id": b.branch.name, "commit": b.branch.commit, "action": b.action, "why": b.why} for b in branches],
            "expired": [each.item.branch.name for each in outcome.expired_branches if not each.code],
            "left": _left_entries(outcome.expired_branches, lambda item: {"run_id": item.branch.name}),
        }
    return document


def _left_entries(done: Sequence[ItemOutcome[T]], name: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
    """What was to go and did not, each by its name, and why."""
    return [{**name(each.item), "code": each.code, "message": each.message} for each in done if each.code]
