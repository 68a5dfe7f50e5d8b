"""``gatewright replay``: rebuild a bundle from the ledger, or carry out an order again and compare the results.

If models were asked, the recorded calls are replayed on a separate stack without a provider key.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import SETTING, find_agent
from gatewright.agents.policy import AgentEntry, load_agents
from gatewright.app.cli.bundle_sources import MOST_FINDINGS, trusted_keys
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.home import make_home
from gatewright.app.cli.output import note
from gatewright.app.cli.run.following import follow_to_end
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.sources import RUNS_FOLDER, find_run
from gatewright.app.cli.session import STARTING_PATIENCE, StackSession, for_one_run
from gatewright.app.cli.settings import AgentSettings, inherited_environment, operator_access, repository_keys, scanner_of
from gatewright.app.replay.baseline import GONE, find_baseline, missing_baseline_words
from gatewright.app.replay.rebuild import rebuild
from gatewright.app.replay.recorded_calls import asked_tasks
from gatewright.app.replay.reexecution import RecordedRun, ReexecutionOrder, compare, read_order, recorded_run
from gatewright.app.replay.rehydration import Rehydration
from gatewright.app.stack.supervisor import StackOptions
from gatewright.client.client import Client
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import ReexecReport, RunRequest, codec
from gatewright.errors import DeniedError, MalformedError, UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import ended_history
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import Sealed
from gatewright.ledger.expiry import check_whole
from gatewright.run.events import ABOUT_BUNDLES
from gatewright.run.state import Run
from gatewright.view.safe_text import printable

#: Codes of a run whose baseline is not available: nothing was repeated, so there is nothing to compare.
WITHOUT_BASELINE = frozenset({"ref_not_found", "repository_unavailable", "repository_unreadable", "repository_empty"})
#: Folder in the home folder for reports of repeated runs, and for their bundles. They are never added to the original
#: bundle, which is closed. The home folders of their stacks are there, too, while they run.
REEXECUTIONS: Final = "reexecutions"
#: Codes of a run whose agent could not be started: nothing was repeated.
UNPLAYED: Final = frozenset({"agent_not_admitted", "agent_not_permitted", "sandbox_unavailable"})


async def rebuild_bundle(wanted: str | None, folder: Path | None, key: Path | None) -> Sealed:
    """Rebuild the bundle of a run from the ledger, in ``folder`` or in its old place. Raises as ``rebuild`` does."""
    place = find_place()
    scanner = scanner_of(place.home)
    async with for_one_run(place.bus, _stack_options(place, ()), note) as session:
        run_id = await find_run(LedgerSource(session.client), wanted)
        sealed = (await session.client.get(run_id)).sealed
        signer = Signer(keys.load(key or keyring.signing_file(place.home, place.key, sealed.signer if sealed else "")))
        return await rebuild(session.client.bus, run_id, folder or place.home / RUNS_FOLDER, signer, scanner)


async def reexecute(bundle: Path, key: str | None, repository: str | None, *, quiet: bool) -> tuple[ReexecReport, Path]:
    """Carry out the order of a bundle again and compare; return the report and its file.

    If models were asked, the recorded answers are replayed on a separate stack.

    Raises:
        MalformedError: ``baseline_missing``, or as ``read_order`` and ``require_playable``.
        GatewrightError: the run failed to start.
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
            second = await _carry_out_order(session, order, quiet=quiet, kept=place.home / REEXECUTIONS)
            played = await read_recorded_run(session.client, second)
        if played.requests == {} and second.failure is not None and second.failure.code in UNPLAYED:
            raise DeniedError(second.failure.message, code=second.failure.code)
    else:
        async with for_one_run(place.bus, _stack_options(place, prefixes), note) as session:
            second = await _carry_out_order(session, order, quiet=quiet)
    if (
        second.failure is not None
        and second.failure.code in WITHOUT_BASELINE
        and (run.failure is None or run.failure.code not in WITHOUT_BASELINE)
    ):
        raise MalformedError(missing_baseline_words(order.url, run.accepted.baseline_commit, second.failure.message), code=GONE)
    both = (order.recorded, played) if order.recorded is not None and played is not None else None
    report = compare(run, second, timestamp(SystemClock().now()), both)
    file = place.home / REEXECUTIONS / f"{run.run_id}--{second.run_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(codec.encode(report) + b"\n")
    return report, file


async def _carry_out_order(session: StackSession, order: ReexecutionOrder, *, quiet: bool, kept: Path | None = None) -> Run:
    """Run the order. ``kept``: folder that the bundle is moved to, if that of the session is temporary."""
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


def _stack_options(place: CommandContext, environments: tuple[Path, ...]) -> StackOptions:
    return StackOptions(
        home=place.home,
        # The answers of models are in the bundle: no model is asked again, and nothing is paid for.
        base_environment={**inherited_environment(), "GATEWRIGHT_CONSULT": ""},
        repository_keys=repository_keys(),
        workers=os.cpu_count() or 1,
        environments=environments,
        adopt=True,
    )


def rehydration_document(result: Rehydration) -> dict[str, Any]:
    """Build the document of ``replay --json``."""
    document: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    return {"ok": result.ok, **document}


def rehydration_lines(result: Rehydration) -> list[str]:
    """Format the rebuilt history: each state with its events."""
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
    """Format the comparison, required equalities first."""
    good = report.status == "pass"
    lines = [f"{'✔' if good else '✘'} {report.run_id} done again: {'the same result' if good else 'another result'}"]
    for word, differences in (("must be equal", report.hard_diffs), ("should be equal", report.soft_diffs)):
        lines += [
            f"  {word}: {each.key}: {_short_json(each.expected)} then, {_short_json(each.actual)} now" for each in differences
        ]
    return [printable(line) for line in [*lines, f"  report {file}"]]


def _short_json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}..."


def require_playable(place: CommandContext, recorded: RecordedRun) -> None:
    """Raise an error unless this host can replay the recorded run.

    Raises:
        MalformedError: ``not_reexecutable``, another host does the work.
        UnavailableError: ``agent_not_installed``, with the command that installs the agent in the recorded version.
    """
    if place.bus is not None:
        words = "recorded calls are played by a stack of this host: unset GATEWRIGHT_NATS_URL, and name the bundle"
        raise MalformedError(words, code="not_reexecutable")
    settings = AgentSettings.load()
    agents = load_agents(settings.policies)
    for each in recorded.agents:
        entry = agents.agent(each.agent)
        found = find_agent(entry, settings.installations)
        if found is None or found.version != each.package_version:
            here = f"{found.version or 'of no version'} is here" if found is not None else "none is installed here"
            made_by = f"the run was made by {each.agent} {each.package_version}"
            install = _install_command(entry, each.package_version)
            raise UnavailableError(f"{made_by}, and {here}; {install}", code="agent_not_installed")


def _install_command(entry: AgentEntry, version: str) -> str:
    package = entry.package.removeprefix("node_modules/").removesuffix("/package.json")
    return f"npm install --prefix ~/agents {package}@{version}, then export {SETTING}=~/agents"


@contextlib.asynccontextmanager
async def playing_stack(
    place: CommandContext, bundle: Path, recorded: RecordedRun, environments: tuple[Path, ...]
) -> AsyncIterator[StackSession]:
    """Start a stack for one run whose roles replay the cassettes of ``bundle``: no provider key, and its own home folder.

    The bundle of the run is stored in the folder ``reexecutions`` of the home folder.
    """
    top = place.home / REEXECUTIONS
    make_home(place.home)
    top.mkdir(exist_ok=True)
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".playing-", dir=top))
    try:
        if (place.home / ADMISSIONS).is_dir():
            await asyncio.to_thread(shutil.copytree, place.home / ADMISSIONS, home / ADMISSIONS)
        stack = StackOptions(
            home=home,
            base_environment={
                **inherited_environment(),
                "GATEWRIGHT_CASSETTE": str(bundle),
                "GATEWRIGHT_CONSULT": ",".join(recorded.roles),
                "GATEWRIGHT_KEY": str(place.key),
            },
            repository_keys=repository_keys(),
            workers=os.cpu_count() or 1,
            environments=environments,
            adopt=True,
        )
        async with for_one_run(None, stack, note) as session:
            yield session
        for made in (home / RUNS_FOLDER).glob("run-*"):
            if (made / layout.MANIFEST).exists():
                made.rename(top / made.name)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def read_recorded_run(client: Client, run: Run) -> RecordedRun:
    """Return the questions and decisions of the ended ``run``. Raises BusError, ArtifactError, MalformedError."""
    records = await client.events(run.run_id)
    check_whole(run, records[0].seq)
    history = ended_history(run, [record for record in records if record.event_type not in ABOUT_BUNDLES])
    wanted = [each for task in asked_tasks(history) for each in (task.calls, task.admission) if each is not None]
    data = {each.uri: await client.get_artifact(each.uri) for each in wanted}
    return recorded_run(history, lambda artifact: data[artifact.uri])
