"""``gatewright replay``: which bundle or run is meant, what has to run for it, and how the result is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from gatewright.app.cli.bundles.playing import REEXECUTIONS, UNPLAYED, playing_stack, recorded_of, require_playable
from gatewright.app.cli.bundles.verifying import MOST_FINDINGS, trusted_keys
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.output import note
from gatewright.app.cli.run.following import follow_to_end
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.sources import RUNS_FOLDER, find_run
from gatewright.app.cli.session import STARTING_PATIENCE, StackSession, for_one_run
from gatewright.app.cli.settings import inherited_environment, operator_access, repository_keys
from gatewright.app.cli.settings import load as load_settings
from gatewright.app.replay.baseline import GONE, find_baseline, missing_baseline_words
from gatewright.app.replay.rebuild import rebuild
from gatewright.app.replay.reexecution import RecordedRun, ReexecutionOrder, compare, read_order
from gatewright.app.replay.rehydration import Rehydration
from gatewright.app.stack.supervisor import StackOptions
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import ReexecReport, RunRequest, codec
from gatewright.errors import DeniedError, MalformedError
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import Sealed
from gatewright.run.state import Run
from gatewright.secrets.selection import make_scanner
from gatewright.view.safe_text import printable

#: With these codes a run ends whose baseline cannot be had: nothing was done again, so there is nothing to compare.
UNHAD = frozenset({"ref_not_found", "repository_unavailable", "repository_unreadable", "repository_empty"})


async def rebuild_bundle(wanted: str | None, folder: Path | None, key: Path | None) -> Sealed:
    """Make the bundle of a run again from the ledger, in ``folder`` or where it was. Raises as ``rebuild`` does."""
    place = find_place()
    scanner = make_scanner(load_settings().secret_scanner, place.home / "secret-rules")
    async with for_one_run(place.bus, _stack(place, ()), note) as session:
        run_id = await find_run(LedgerSource(session.client), wanted)
        sealed = (await session.client.get(run_id)).sealed
        signer = Signer(keys.load(key or keyring.signing_file(place.home, place.key, sealed.signer if sealed else "")))
        return await rebuild(session.client.bus, run_id, folder or place.home / RUNS_FOLDER, signer, scanner)


async def reexecute(bundle: Path, key: str | None, repository: str | None, *, quiet: bool) -> tuple[ReexecReport, Path]:
    """Carry out the order of the bundle in the folder ``bundle`` again and compare; the report, and the file that has it.

    Where models were asked, what was recorded is played, on a stack of its own.

    Raises as ``read_order`` does, MalformedError (``baseline_missing``) where the baseline cannot be had, as
    ``require_playable`` does, what running raises.
    """
    place = find_place()
    trusted = trusted_keys(key, place)
    run, order = read_order(bundle, trusted, repository, plays=place.bus is None)
    if order.recorded is not None:
        require_playable(place, order.recorded)
    if place.bus is None:
        make_home(place.home)
        found = await find_baseline(place.home, order.url, run.accepted.baseline_commit, operator_access())
        if found != order.url:
            note(f"{order.url} has lost the baseline: taken from {found}")
            run, order = read_order(bundle, trusted, found, plays=place.bus is None)
    environment = order.document.environment
    prefixes = tuple(Path(each.prefix) for each in environment.all) if environment else ()
    played: RecordedRun | None = None
    if order.recorded is not None:
        async with playing_stack(place, bundle, order.recorded, prefixes) as session:
            second = await _carry_out(session, order, quiet=quiet, kept=place.home / REEXECUTIONS)
            played = await recorded_of(session.client, second)
        if played.requests == {} and second.failure is not None and second.failure.code in UNPLAYED:
            raise DeniedError(second.failure.message, code=second.failure.code)
    else:
        async with for_one_run(place.bus, _stack(place, prefixes), note) as session:
            second = await _carry_out(session, order, quiet=quiet)
    if second.failure is not None and second.failure.code in UNHAD and (run.failure is None or run.failure.code not in UNHAD):
        raise MalformedError(missing_baseline_words(order.url, run.accepted.baseline_commit, second.failure.message), code=GONE)
    both = (order.recorded, played) if order.recorded is not None and played is not None else None
    report = compare(run, second, timestamp(SystemClock().now()), both)
    file = place.home / REEXECUTIONS / f"{run.run_id}--{second.run_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(codec.encode(report) + b"\n")
    return report, file


async def _carry_out(session: StackSession, order: ReexecutionOrder, *, quiet: bool, kept: Path | None = None) -> Run:
    """``kept``: the folder that the bundle is moved to, where the session's own does not outlive it."""
    client = session.client
    attached = [await client.attach(artifact.name, data) for artifact, data in order.attachments]
    document = order.attached(attached)
    if isinstance(document, RunRequest):
        run_id = await client.submit_request(document, patience=STARTING_PATIENCE)
    else:
        run_id = await client.submit_contract(document, patience=STARTING_PATIENCE)
    if quiet:
        return await client.wait(run_id)
    await follow_to_end(client, run_id, session.home, json_output=False, kept=kept)
    return await client.get(run_id)


def _stack(place: CommandContext, environments: tuple[Path, ...]) -> StackOptions:
    return StackOptions(
        home=place.home,
        # What models were asked is in the bundle: none is asked again, and nothing is paid for.
        base_environment={**inherited_environment(), "GATEWRIGHT_CONSULT": ""},
        repository_keys=repository_keys(),
        workers=os.cpu_count() or 1,
        environments=environments,
        adopt=True,
    )


def rehydration_document(result: Rehydration) -> dict[str, Any]:
    """The document of ``replay --json``."""
    document: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    return {"ok": result.ok, **document}


def rehydration_lines(result: Rehydration) -> list[str]:
    """The run told again, for people: each state with what happened in it."""
    if not result.steps and not result.findings:
        raise MalformedError(f"{result.location} holds no events", code="not_a_bundle")
    lines = []
    for step in result.steps:
        about = f" {step.task_id}" if step.task_id else ""
        lines.append(f"  {step.seq:>4}  {step.ts}  {step.state if step.entered else '':<8} {step.event_type}{about}")
    verdict = "is what its events make of it" if result.ok else "is not what its events make of it"
    lines += [f"{'✔' if result.ok else '✘'} {result.run_id or 'the bundle'} ({result.status or 'unknown'}) {verdict}"]
    lines += [
        f"  {len(result.steps)} events, {len(result.derived)} files made again; who signed them is for `gatewright verify`"
    ]
    lines += [f"  {f.path or result.location}: {f.code}: {f.message}" for f in result.findings[:MOST_FINDINGS]]
    more = len(result.findings) - MOST_FINDINGS
    lines += [f"  ... and {more} more"] if more > 0 else []
    lines += [f"  not compared: {words}" for words in result.unchecked]
    return [printable(line) for line in lines]


def reexecution_lines(report: ReexecReport, file: Path) -> list[str]:
    """The comparison for people: what must be equal first."""
    good = report.status == "pass"
    lines = [f"{'✔' if good else '✘'} {report.run_id} done again: {'the same result' if good else 'another result'}"]
    for word, differences in (("must be equal", report.hard_diffs), ("should be equal", report.soft_diffs)):
        lines += [f"  {word}: {each.key}: {_short(each.expected)} then, {_short(each.actual)} now" for each in differences]
    return [printable(line) for line in [*lines, f"  report {file}"]]


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}..."
