"""``verify``, ``verify-commit``, ``replay``, ``fetch``, ``report`` and ``attach``: verify and show bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import BundleArgument, JsonOutput, TrustedKeys
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line, write_whole
from gatewright.app.cli.results import ResultRecords, receive_run
from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.version import __version__
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.evidence.signing import keyring
    from gatewright.evidence.verification.commits import CommitOutcome, CommitsVerification, CommitVerdict
    from gatewright.evidence.verification.findings import Verification

_HELP_REPLAY = """Rebuild a run from its events and compare the files.

Without options, this command runs nothing and uses no bus. With --from-ledger, it rebuilds the bundle byte for byte from
the ledger and the artifact store. With --reexecute, it repeats the run on the same baseline without landing, and compares
the results.

    gatewright replay RUN
    gatewright replay --from-ledger RUN -o DIR
    gatewright replay --reexecute RUN
"""

_HELP_COMMITS = """Verify commits by their attached evidence.

This command looks for the note on each commit (refs/notes/gatewright), or else for a note about its tree. Fetch the notes
before. Exit codes: 0 verified, 1 wrong evidence, 2 no evidence, 3 no answer.

    gatewright verify-commit HEAD --key gatekeeper.pem.pub
    gatewright verify-commit --range origin/main..HEAD --key gatekeeper.pem.pub
"""
#: Exit codes of ``verify-commit``.
_EXIT_OF: dict[CommitOutcome, int] = {"verified": 0, "failed": 1, "not_found": 2, "unknown": 3}


def register(app: typer.Typer) -> None:
    app.command()(verify)
    app.command(help=_HELP_COMMITS)(verify_commit)
    app.command(help=_HELP_REPLAY)(replay)
    app.command()(attach)
    app.command()(fetch)
    app.command()(report)


@reported
def verify(
    bundle: BundleArgument = None,
    key: TrustedKeys = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Compare the recorded trees and commit with this repository")
    ] = None,
    unsigned: Annotated[
        bool, typer.Option("--insecure-allow-unsigned", help="UNSAFE: accept a bundle without a signature")
    ] = False,
    json_output: JsonOutput = False,
) -> None:
    """Verify a run bundle offline.

    This command checks every byte, uses no bus and writes nothing. Exit code 1 means that the bundle is not valid.
    """
    checked = check_bundle(bundle, key or (), _address(repo), unsigned=unsigned)
    if json_output:
        emit(verification_document(checked))
    else:
        for line in verdict_lines(checked):
            write_line(printable(line))
    raise typer.Exit(Exit.GOOD if checked.ok else Exit.FAILED)


@reported
def verify_commit(
    commit: Annotated[str | None, typer.Argument(metavar="[COMMIT]", help="Commit to verify")] = None,
    span: Annotated[
        str | None, typer.Option("--range", metavar="A..B", help="Verify each commit of B that A does not have")
    ] = None,
    repo: Annotated[Path, typer.Option(metavar="PATH", help="Repository with the commits and the notes")] = Path(),
    key: TrustedKeys = None,
    landed_in: Annotated[
        str | None, typer.Option(metavar="URL", help="Require that the runs landed in this repository")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    result = check_commits(repo, commit, span, key or (), landed_in)
    if json_output:
        emit(commits_document(result))
    else:
        for line in commits_lines(result):
            write_line(printable(line))
    raise typer.Exit(_EXIT_OF[result.outcome])


def check_commits(
    repo: Path, commit: str | None, span: str | None, key: Sequence[str], landed_in: str | None
) -> CommitsVerification:
    """Verify a commit or a range of the repository around ``repo``. Every error is an answer: ``unknown``."""
    from gatewright.app.cli.bundle_sources import trust
    from gatewright.app.cli.user_git import user_checkout
    from gatewright.evidence.verification.commits import CommitsVerification, CommitVerifier, commits_of_range

    try:
        if (commit is None) == (span is None):
            raise MalformedError("give a commit or --range A..B", code="invalid_input")
        trusted = [each.public for each in trust(key)]
        checkout = user_checkout(repo)
        commits = commits_of_range(checkout, span) if span is not None else (checkout.resolve(commit or ""),)
        return CommitVerifier(checkout.objects, trusted, landed_in).verify(commits)
    except GatewrightError as error:
        return CommitsVerification((), error.reason, error.message)


def commits_document(result: CommitsVerification) -> dict[str, Any]:
    """Build the document of ``verify-commit --json``."""
    import msgspec

    document = {"ok": result.outcome == "verified", "outcome": result.outcome, "counts": dict(result.counts)}
    fault = {"code": result.code, "message": result.message} if result.code else None
    return {**document, "error": fault, "commits": msgspec.to_builtins(result.verdicts)}


def commits_lines(result: CommitsVerification) -> list[str]:
    """Format the results: one commit in full; of a range, the commits that are not verified, and the counts."""
    from gatewright.app.cli.bundle_sources import MOST_FINDINGS

    if result.code:
        return [f"? unknown: {result.message} [{result.code}]"]
    if len(result.verdicts) == 1:
        return _commit_lines(result.verdicts[0])
    wrong = [verdict for verdict in result.verdicts if verdict.outcome != "verified"]
    lines = [line for verdict in wrong[:MOST_FINDINGS] for line in _commit_lines(verdict)]
    lines += [f"  ... and {len(wrong) - MOST_FINDINGS} more"] if len(wrong) > MOST_FINDINGS else []
    counts = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in sorted(result.counts.items()))
    by_tree = sum(verdict.found_by == "tree" and verdict.proof is not None for verdict in result.verdicts)
    mark = "✔" if result.outcome == "verified" else "✘"
    return [*lines, f"{mark} {len(result.verdicts)} commits: {counts or 'nothing to verify'}; {by_tree} by tree"]


def _commit_lines(verdict: CommitVerdict) -> list[str]:
    proof = verdict.proof
    if proof is None:
        return [f"✘ {verdict.commit}: {verdict.outcome.replace('_', ' ')}: {verdict.message} [{verdict.code}]"]
    lines = [
        f"✔ {verdict.commit}: verified by {verdict.found_by}",
        f"  signed by {proof.signer}, for a run that ended {proof.ended}",
        f"  landed in {proof.repository}",
        f"  levels    {', '.join(proof.levels)}",
        f"  checks    {', '.join(proof.passed)}",
        *([f"  warned    {', '.join(proof.warned)}"] if proof.warned else []),
        f"  bundle    manifest.json sha256:{proof.manifest_sha256}",
    ]
    if verdict.found_by == "tree":
        lines.append(f"  the run landed {proof.commit}: author, message and parents of this commit are not proven")
    return lines


@reported
def fetch(
    run: Annotated[str, typer.Argument(metavar="RUN|STORE/RUN", help="Full run id, or address of a bundle in a store")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Directory to create the bundle in")],
    json_output: JsonOutput = False,
) -> None:
    """Download the bundle of a run.

    The gatekeeper or a store sends it. A publisher may fetch the bundles of its own runs. Check the bundle with
    `gatewright verify`.
    """
    from gatewright.app.cli.bundle_sources import fetch_bundle
    from gatewright.evidence.store.address import is_address

    folder = fetch_bundle(run, output) if is_address(run) else asyncio.run(receive_run(run, output))
    if json_output:
        emit({"bundle": str(folder)})
        return
    write_line(f"{printable(str(folder))}")
    write_line(f"  verify it with: gatewright verify {printable(str(folder))}")


@reported
def attach(
    bundle: BundleArgument = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Repository to write to", show_default="where the change landed")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Attach the signed statements to the landed commit.

    This command stores them as a git note (refs/notes/gatewright). Work trees do not change.
    """
    done = attach_statements(bundle, _address(repo))
    if json_output:
        emit(done)
        return
    write_line(f"{'attached to' if done.new else 'already on'} {done.commit} in {printable(done.repository)}")
    write_line(f"  read it with: git notes --ref=gatewright show {done.commit}")


def _address(repo: str | None) -> str | None:
    """Make a path absolute; an address stays as it is."""
    return str(Path(repo).absolute()) if repo is not None and Path(repo).is_dir() else repo


@reported
def replay(
    bundle: BundleArgument = None,
    *,
    from_ledger: Annotated[bool, typer.Option("--from-ledger", help="Rebuild the bundle from the ledger")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="With --from-ledger: destination directory")
    ] = None,
    signing_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --from-ledger: private key (default: key of this host)")
    ] = None,
    again: Annotated[bool, typer.Option("--reexecute", help="Repeat the run and compare the results")] = False,
    repo: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --reexecute: current address of the repository", show_default="as before"),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE|FINGERPRINT", help="With --reexecute: trusted public key")] = None,
    json_output: JsonOutput = False,
) -> None:
    from gatewright.app.cli import replay
    from gatewright.app.cli.bundle_sources import find_bundle
    from gatewright.app.cli.context import find_place
    from gatewright.app.replay.rehydration import rehydrate

    if from_ledger and again:
        raise MalformedError("give --from-ledger or --reexecute, not both", code="invalid_input")
    if from_ledger:
        sealed = asyncio.run(replay.rebuild_bundle(bundle, output, signing_key))
        document: Any = {"location": sealed.location, "manifest_sha256": sealed.manifest_sha256, "signer": sealed.signer}
        lines, good = [f"✔ made again, byte for byte: {printable(sealed.location)}"], True
    elif again:
        folder = find_bundle(bundle, find_place())
        report, file = asyncio.run(replay.reexecute(folder, key, repo, quiet=json_output))
        document, lines, good = report, replay.reexecution_lines(report, file), report.status == "pass"
    else:
        result = rehydrate(find_bundle(bundle, find_place()))
        document, lines, good = replay.rehydration_document(result), replay.rehydration_lines(result), result.ok
    if json_output:
        emit(document)
    else:
        for line in lines:
            write_line(line)
    raise typer.Exit(Exit.GOOD if good else Exit.FAILED)


@dataclass(frozen=True, slots=True)
class Checked:
    """A verification, and the trusted key that signed; None if none did."""

    result: Verification
    key: keyring.KnownKey | None
    records: ResultRecords = field(default_factory=ResultRecords)

    @property
    def ok(self) -> bool:
        """Return whether the bundle verifies, and each record of what was done with its results."""
        return self.result.ok and self.records.verified


def check_bundle(given: str | None, key: Sequence[str], repository: str | None, *, unsigned: bool) -> Checked:
    """Verify the bundle that ``given`` names. Raises MalformedError if the bundle or a key does not exist.

    With a folder and key files no home folder is read, so a home folder that a repository tracks cannot cause an error.
    """
    from gatewright.app.cli.bundle_sources import find_bundle, find_elsewhere, is_outside_home, trust
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.settings import operator_access
    from gatewright.evidence.layout import is_safe
    from gatewright.evidence.store.address import is_address
    from gatewright.evidence.verification.verify import verify as verify_bundle

    bundle = find_elsewhere(given) if given is not None and is_outside_home(given) else find_bundle(given, find_place())
    trusted = () if unsigned and not key else trust(key)
    access = operator_access() if repository is not None else None
    result = verify_bundle(
        bundle, [each.public for each in trusted], repository, insecure_allow_unsigned=unsigned, access=access
    )
    if given is not None and is_address(given):
        result = replace(result, location=given)
    outside = given is not None and is_outside_home(given)
    records = ResultRecords() if outside or not is_safe(result.run_id) else ResultRecords.of_run(result.run_id)
    return Checked(result, next((each.known for each in trusted if each.public.key_id == result.signer), None), records)


def key_document(key: keyring.KnownKey | None) -> dict[str, str] | None:
    """Return the signing key for ``--json``."""
    if key is None:
        return None
    return {"fingerprint": key.key_id, "state": key.state, "file": str(key.file), "retired": key.retired}


def key_words(key: keyring.KnownKey | None) -> str:
    """Format the owner of the signing key; empty if no trusted key signed."""
    return f"{key.key_id} ({key.whose}; {key.file})" if key is not None else ""


def verification_document(checked: Checked) -> dict[str, Any]:
    """Build the document of ``verify --json``."""
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(checked.result, enc_hook=str)
    words = {"ok": checked.ok, "outcome": checked.result.outcome}
    return {**words, **document, "key": key_document(checked.key), **checked.records.document}


def verdict_lines(checked: Checked) -> list[str]:
    """Format the verdict."""
    from gatewright.app.cli.bundle_sources import MOST_FINDINGS

    result, signer = checked.result, key_words(checked.key)
    name = f"{result.run_id or 'bundle'} ({result.status or 'unknown'})"
    if result.ok:
        signed = result.signer != ""
        return [
            f"✔ {name}: all {result.files} files are as they were {'signed' if signed else 'written'}",
            f"  signed by {signer}" if signed else "  NOT SIGNED: anybody may have written this bundle",
            f"  checked   {', '.join(step.partition(' ')[2] for step in result.checked)}",
            *(f"  approval  {words}" for words in result.approved),
            *(f"  {line}" for line in checked.records.lines(10)),
            "  a bundle alone cannot prove:",
            *(f"    {words}" for words in result.unchecked),
        ]
    lines = [f"✘ {name}: {result.outcome.replace('_', ' ')}"]
    lines += [f"  {f.path or result.location}: {f.code}: {f.message}" for f in result.findings[:MOST_FINDINGS]]
    more = len(result.findings) - MOST_FINDINGS
    lines += [f"  ... and {more} more"] if more > 0 else []
    return [*lines, f"  signed by {signer}"] if signer else lines


@reported
def report(
    bundle: BundleArgument = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML file to write")],
    key: Annotated[
        str | None, typer.Option(metavar="FILE|FINGERPRINT", help="Trusted public key", show_default="all trusted keys")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Write a self-contained HTML report of a run.

    The report shows timeline, gates, change, tests and evidence. It begins with the result of verifying the bundle. Exit
    code 1 means that the bundle is not valid; the command still writes the report.
    """
    result = write_report(bundle, output, key)
    if json_output:
        emit({"report": str(output), "ok": result.ok, "outcome": result.outcome, "run_id": result.run_id})
    else:
        write_line(f"{'✔' if result.ok else '✘'} {printable(str(output))}: the bundle is {_outcome_words(result.outcome)}")
    raise typer.Exit(Exit.GOOD if result.ok else Exit.FAILED)


def _outcome_words(outcome: str) -> str:
    return {"ok": "verified"}.get(outcome, outcome.replace("_", " "))


def write_report(given: str | None, output: Path, key: str | None) -> Verification:
    """Write the report of the bundle that ``given`` names to ``output``; return its verification.

    Raises:
        MalformedError: the bundle or the key does not exist, or the file cannot be written (``output_unwritable``).
    """
    from gatewright.app.cli.bundle_sources import find_bundle, trust
    from gatewright.app.cli.context import find_place
    from gatewright.app.report.account import read_account
    from gatewright.app.report.page import Material, render
    from gatewright.evidence.verification.verify import verify as verify_bundle

    place = find_place()
    folder = find_bundle(given, place)
    if output.absolute().is_relative_to(folder.absolute()):
        raise MalformedError(f"{output} would lie inside the bundle, which would not verify any more", code="output_unwritable")
    trusted = trust((key,) if key else (), place)
    result = verify_bundle(folder, [each.public for each in trusted])
    whose = next((each.known.whose for each in trusted if each.public.key_id == result.signer), "")
    words = f"Made by Gatewright {__version__} from the bundle alone."
    page = render(Material(read_account(folder), result, words, whose=whose))
    write_whole(output, page)
    return result


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attached note. ``new`` is False if the note existed already."""

    run_id: str
    repository: str
    commit: str
    new: bool


def attach_statements(given: str | None, repository: str | None) -> Attachment:
    """Attach the bundle that ``given`` names to its landed commit in ``repository``, or where it landed.

    Raises:
        VerificationError: ``bundle_not_verified``.
        MalformedError: ``nothing_landed``.
        GitError: the note cannot be written.
    """
    from gatewright.app.cli.bundle_sources import find_bundle, trusted_keys
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.settings import operator_access
    from gatewright.contracts import RunManifest, codec
    from gatewright.evidence import layout
    from gatewright.evidence.git_note import attach_note, note_of
    from gatewright.evidence.verification.verify import verify as verify_bundle

    place = find_place()
    bundle = find_bundle(given, place)
    result = verify_bundle(bundle, trusted_keys(None, place))
    if not result.ok:
        raise VerificationError(
            f"the bundle does not verify: {result.findings[0].path}: {result.findings[0].message}", code="bundle_not_verified"
        )
    repo = codec.decode(Path(bundle / layout.MANIFEST).read_bytes(), RunManifest).repo
    if not repo.final_ref:
        raise MalformedError(f"{result.run_id} landed no commit that a note could stand on", code="nothing_landed")
    where = repository or repo.root
    new = asyncio.run(attach_note(where, repo.final_ref, note_of(bundle), operator_access()))
    return Attachment(result.run_id, where, repo.final_ref, new)
