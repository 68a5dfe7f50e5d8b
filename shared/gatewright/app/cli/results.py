"""``publish`` and ``deploy``: what is done with the results of sealed runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from gatewright.app.cli.options import BundleArgument, JsonOutput, TrustedKeys, grouped
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, note, reported, write_line, write_whole
from gatewright.errors import DeniedError, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.publication.artifacts import SealedRun
    from gatewright.app.publication.publishing import Published
    from gatewright.app.signed_records import Record
    from gatewright.contracts import Deployment, Publication
    from gatewright.evidence.signing.keys import PublicKey

_HELP_PUBLISH = """Publish files of a successful run to a sink.

This command verifies the bundle, signs each file, and writes it once to a sink of sinks.json. Without --to, it lists and
verifies earlier publications.

    gatewright publish RUN --to releases
    gatewright publish RUN --to releases --file patch.diff --file bundle.zip
"""
_HELP_DEPLOY = """Deploy the commit that a run landed.

This command verifies the bundle. Then it runs a command of deployments.json in a box of its own, with the files of the
commit. The command reaches only the servers of its deployment. Exit code 0 means READY. Without --to, it lists and
verifies earlier deployments.

    gatewright deploy RUN --to staging
"""
#: Lines of output that are shown of a deployment that is not READY.
_LAST_LINES = 10


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_PUBLISH)(publish)
    app.command(help=_HELP_DEPLOY)(deploy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionOptions:
    """Options of an exception from a rule about a sink."""

    rule: Annotated[str | None, typer.Option("--except", metavar="RULE", help="Sign an exception from this rule instead")] = (
        None
    )
    owner: Annotated[str, typer.Option(metavar="NAME", help="With --except: responsible person")] = ""
    reason: Annotated[str, typer.Option(metavar="TEXT", help="With --except: reason")] = ""
    until: Annotated[str, typer.Option(metavar="TIME", help="With --except: end, such as 30d or 2026-05-04T18:00+02:00")] = ""
    signing_key: Annotated[Path | None, typer.Option(metavar="FILE", help="With --except: the operator's private key")] = None
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="With --except: file to write")] = None


@grouped
@reported
def publish(
    bundle: BundleArgument = None,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="SINK", help="Sink of sinks.json")] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Path in the bundle, packet.md or bundle.zip", show_default="patch, packet and reports"
        ),
    ] = None,
    key: TrustedKeys = None,
    exception: ExceptionOptions,
    json_output: JsonOutput = False,
) -> None:
    if exception.rule is not None:
        path = write_exception(exception, to)
        document: Any = {"exception": str(path)}
        lines = [str(path)]
    elif to is None:
        records = list_publications(bundle)
        document, lines = {"publications": records}, [publication_line(each) for each in records]
    else:
        done = publish_run(bundle, to, file or (), key or ())
        document = {"new": done.new, "name": done.name, "publication": done.record}
        lines = [
            f"{'published' if done.new else 'already published'}: {done.record.run_id} in {done.record.address}",
            f"  {len(done.record.objects)} objects, {len(done.new)} new; record {done.name}",
            f"  signed by {done.record.key_id}",
        ]
    good = to is not None or exception.rule is not None or not any(each.code for each in records)
    _print_result(document, lines, json_output=json_output, good=good)


@reported
def deploy(
    bundle: BundleArgument = None,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="NAME", help="Deployment of deployments.json")] = None,
    key: TrustedKeys = None,
    json_output: JsonOutput = False,
) -> None:
    if to is None:
        records = list_deployments(bundle)
        good = not any(each.code for each in records)
        _print_result({"deployments": records}, map(deployment_line, records), json_output=json_output, good=good)
        return
    done = deploy_run(bundle, to, key or ())
    made = done.record
    files = [Path(done.file).with_name(each.path) for each in made.files] if made is not None else []
    good = made is not None and made.state == "READY"
    output = files[0].read_text("utf-8", "replace").splitlines() if files and not good else []
    lines = (deployment_line(done), *(f"  {file}" for file in files), *(f"  | {line}" for line in output[-_LAST_LINES:]))
    _print_result(done, lines, json_output=json_output, good=good)


def _print_result(document: Any, lines: Iterable[str], *, json_output: bool, good: bool) -> None:
    """Print a result, and end with its exit code."""
    if json_output:
        emit(document)
    else:
        for line in lines:
            write_line(printable(line))
    if not good:
        raise typer.Exit(Exit.FAILED)


class _Source(NamedTuple):
    """A verified run, the place of the command, and the keys that are trusted there."""

    place: CommandContext
    sealed: SealedRun
    trusted: list[PublicKey]


def _verified(given: str | None, key: Sequence[str]) -> _Source:
    """Verify the run that ``given`` names; the gatekeeper of a bus sends its bundle if this home does not have it.

    Raises GatewrightError.
    """
    from gatewright.app.cli.bundle_sources import find_bundle, temporary_folder, trust
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.sources import RUNS_FOLDER
    from gatewright.app.cli.settings import load as load_settings
    from gatewright.app.publication.artifacts import sealed_run
    from gatewright.app.report.account import read_account
    from gatewright.evidence.store.address import is_run
    from gatewright.evidence.verification.verify import verify as verify_bundle

    place = find_place()
    trusted = [each.public for each in trust(key, place)]
    elsewhere = place.bus is not None and not load_settings().bundle_store and given is not None and is_run(given)
    if elsewhere and not (place.home / RUNS_FOLDER / str(given)).is_dir():
        folder = asyncio.run(receive_run(str(given), temporary_folder()))
    else:
        folder = find_bundle(given, place)
    return _Source(place, sealed_run(read_account(folder), verify_bundle(folder, trusted)), trusted)


def publish_run(given: str | None, to: str, names: Sequence[str], key: Sequence[str]) -> Published:
    """Publish files of the run that ``given`` names in the sink ``to``; progress goes to standard error.

    Raises GatewrightError.
    """
    from gatewright.app.cli.settings import AgentSettings, scanner_of
    from gatewright.app.publication.publishing import RunPublisher
    from gatewright.app.publication.sinks import SINKS_FILE
    from gatewright.app.signed_records import result_key
    from gatewright.clock import SystemClock
    from gatewright.evidence.store.policy import STORES_FILE

    policies = AgentSettings.load().policies
    sink, stores = SINKS_FILE.load(policies).policy.entry(to), STORES_FILE.load(policies).policy
    place, sealed, trusted = _verified(given, key)
    signing = result_key(place.home, sink.key, trusted)
    return RunPublisher(sink, stores, signing, place.home, scanner_of(place.home), SystemClock()).publish(sealed, names, note)


def deploy_run(given: str | None, to: str, key: Sequence[str]) -> Record[Deployment]:
    """Deploy the commit of the run that ``given`` names by the deployment ``to``; progress goes to standard error.

    An interrupt ends the command, and the record states it.

    Raises GatewrightError.
    """
    from gatewright.app.cli.settings import AgentSettings, operator_access, scanner_of
    from gatewright.app.deployment.deploying import Deployer
    from gatewright.app.deployment.policy import DEPLOYMENTS_FILE
    from gatewright.app.signed_records import result_key
    from gatewright.clock import SystemClock

    policy, sha256 = DEPLOYMENTS_FILE.load(AgentSettings.load().policies)
    entry = policy.entry(to)
    place, sealed, trusted = _verified(given, key)
    signing, scanner = result_key(place.home, entry.key, trusted), scanner_of(place.home)
    deployer = Deployer(entry, sha256 or "", signing, place.home, operator_access(), scanner, SystemClock(), note)

    async def until_interrupted() -> Record[Deployment]:
        deploying = asyncio.ensure_future(deployer.deploy(sealed))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, deploying.cancel)
        try:
            return await deploying
        except asyncio.CancelledError:
            raise DeniedError("interrupted before the command started", code="aborted") from None

    return asyncio.run(until_interrupted())


@dataclass(frozen=True, slots=True)
class ResultRecords:
    """What was done with the results of a run, by the records of the home folder."""

    publications: Sequence[Record[Publication]] = ()
    deployments: Sequence[Record[Deployment]] = ()

    @classmethod
    def of_run(cls, run_id: str) -> Self:
        return cls(list_publications(run_id), list_deployments(run_id))

    @property
    def verified(self) -> bool:
        """Whether each record verifies."""
        return not any(each.code for each in self.publications) and not any(each.code for each in self.deployments)

    @property
    def document(self) -> dict[str, Any]:
        """The records by kind, without kinds that have none."""
        kinds = {"publications": self.publications, "deployments": self.deployments}
        return {name: records for name, records in kinds.items() if records}

    def lines(self, width: int) -> Iterator[str]:
        """Yield each record as a line that begins with what was done, in a column of ``width`` characters."""
        yield from (f"{'published':{width}}{publication_line(each)}" for each in self.publications)
        yield from (f"{'deployed':{width}}{deployment_line(each)}" for each in self.deployments)


def list_publications(given: str | None) -> list[Record[Publication]]:
    """Return the records of the home folder: of all runs, or of the run with this id or this bundle folder."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.publication.publishing import PUBLICATION
    from gatewright.app.signed_records import PUBLICATIONS, read_records

    return read_records(find_place().home, PUBLICATIONS, PUBLICATION, _run_of(given))


def list_deployments(given: str | None) -> list[Record[Deployment]]:
    """Return the records of the home folder: of all runs, or of the run with this id or this bundle folder."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.deployment.deploying import deployment_records

    return deployment_records(find_place().home, _run_of(given))


def _run_of(given: str | None) -> str:
    from gatewright.evidence.layout import safe

    return safe(Path(given).name) if given is not None else "*"


def publication_line(found: Record[Publication]) -> str:
    """Format a record as one line."""
    made = found.record
    if made is None or found.code:
        return f"✘ {found.file}: {found.code}"
    return f"✔ {made.run_id} in {made.sink} ({made.address}) at {made.published_at}: {len(made.objects)} objects"


def deployment_line(found: Record[Deployment]) -> str:
    """Format a record as one line."""
    made = found.record
    if made is None or found.code:
        return f"✘ {found.file}: {found.code}"
    mark = {"READY": "✔", "RUNNING": "…"}.get(made.state, "✘")
    code = f", exit code {made.exit_code}" if made.exit_code else ""
    reason = "no end is recorded" if made.state == "RUNNING" else made.reason
    why = f": {reason}" if reason else ""
    place = f" {made.address}" if made.address else ""
    return f"{mark} {made.state} {made.run_id} ({made.commit[:12]}) on {made.target}{place} at {made.started_at}{code}{why}"


async def receive_run(run_id: str, output: Path) -> Path:
    """Receive the bundle of a run from the gatekeeper of the bus. Raises GatewrightError."""
    from gatewright.app.cli.bundle_sources import receive_bundle
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return await receive_bundle(client, run_id, output)


def write_exception(options: ExceptionOptions, sink: str | None) -> Path:
    """Sign an exception. Raises MalformedError, ConfigurationError."""
    import msgspec

    from gatewright.app.cli.people.granting import end_of
    from gatewright.app.publication.exceptions import EXCEPTION
    from gatewright.clock import SystemClock, timestamp
    from gatewright.contracts import PolicyException, codec
    from gatewright.evidence.signing.envelopes import Signer
    from gatewright.evidence.signing.keys import load

    if options.signing_key is None or options.output is None:
        raise MalformedError("--except needs --signing-key FILE and --output FILE", code="invalid_input")
    until = timestamp(end_of(options.until, SystemClock().now()))
    fields = {"rule": options.rule, "sink": sink or "", "reason": options.reason, "owner": options.owner, "expires_at": until}
    exception = codec.decode(msgspec.json.encode(fields), PolicyException)
    write_whole(options.output, EXCEPTION.sign(exception, Signer(load(options.signing_key))))
    return options.output
