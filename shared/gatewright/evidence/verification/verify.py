"""``verify``: checks whether a folder proves what it claims. Reads only; uses no bus and no network.

Every fault is collected, not only the first, with its file. docs/bundle.md explains the codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.contracts import RunManifest, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout, tombstone
from gatewright.evidence.signing.envelopes import open_envelope, payload_of
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.statement import Statement
from gatewright.evidence.verification.consistency.check import check_consistency
from gatewright.evidence.verification.document_checks import check_events, check_schemas
from gatewright.evidence.verification.findings import REPOSITORY_STEP, STEPS, Verification, VerificationFinding
from gatewright.evidence.verification.projected import check_projection
from gatewright.evidence.verification.reading import Facts, Reading, read_all, runs_named, scan
from gatewright.foreign_documents import UnreadableDocumentError, read_json

if TYPE_CHECKING:
    from gatewright.git.access.credentials import RepositoryAccess

#: Facts that no bundle can prove by itself.
OUT_OF_REACH: tuple[str, ...] = (
    "that the ledger holds these events and no others (the bus was not asked)",
    "that a role's own words about its work are true (results/, codex/: claims, kept as they came)",
    "that the gatekeeper's clock was right",
)
#: Facts that need a repository, and facts that even a repository cannot prove.
NOT_ASKED = "that the repository holds the landed commit, and that patch.diff leads to its tree (give --repo)"
NOT_JUDGED = "that the policies of the time allowed the change (their digest is recorded, they themselves are not)"
#: A step returns why it could not be done, or an empty text.
Step = Callable[[Reading, int], str]


def verify(
    bundle: Path,
    trusted_keys: Sequence[PublicKey],
    repository: str | None = None,
    *,
    insecure_allow_unsigned: bool = False,
    access: RepositoryAccess | None = None,
) -> Verification:
    """Check the run bundle in the folder ``bundle``, which must not be modified meanwhile.

    1. shape: a folder of plain files, no links, no special files, a manifest that parses, of the run that the folder names
    2. signature: by one of ``trusted_keys``, over the exact bytes of the manifest, and not after the key was retired
    3. files: exactly the listed files are there, with their size and sha256
    4. schemas: every document is valid under its schema
    5. events: the hash chain is complete, and the events fold to the end that the manifest records
    6. projection: every other file, the manifest and the signed statements follow exactly from these events
    7. consistency: the documents do not contradict each other, by the rules that decided (``consistency/``)
    8. repository, if its URL is given: its objects agree (``repository.py``; not from a running event loop)

    A pruned bundle has only a tombstone, and only that is verified. No error about the bundle is raised: every fault is a
    finding.

    Args:
        bundle: the folder.
        trusted_keys: without a key the bundle is not verified (``no_trusted_key``), even if everything else is valid.
        repository: URL of the repository, to include step 8.
        insecure_allow_unsigned: accept a bundle without any signature. It is then only consistent with itself, and anyone may
            have written it.
        access: credentials of the repository.
    """
    stone = look_for_tombstone(bundle, trusted_keys)
    if isinstance(stone, Verification):
        return stone
    reading, checked, unchecked = run_steps(bundle, trusted_keys, repository, unsigned=insecure_allow_unsigned, access=access)
    if stone is not None:
        reading.findings.found.append(stone)
    asked = NOT_ASKED if repository is None else NOT_JUDGED
    manifest = reading.manifest
    return Verification(
        location=bundle,
        findings=tuple(reading.findings.found),
        run_id=manifest.run_id if manifest else "",
        status=reading.run.status if reading.run else "",
        signer=reading.signer,
        manifest_sha256=hashlib.sha256(reading.manifest_bytes).hexdigest() if manifest else "",
        files=len(reading.shape.files),
        size=sum(facts.size for facts in reading.facts.values()),
        checked=checked,
        unchecked=(*unchecked, *reading.notes, asked, *OUT_OF_REACH),
        approved=tuple(reading.approved),
    )


def run_steps(
    bundle: Path,
    trusted_keys: Sequence[PublicKey],
    repository: str | None = None,
    *,
    unsigned: bool = False,
    access: RepositoryAccess | None = None,
) -> tuple[Reading, tuple[str, ...], tuple[str, ...]]:
    """Run the steps of ``verify``.

    Returns:
        Everything that was read, the completed steps, and the steps that could not be done.
    """
    reading = Reading(bundle, tuple(trusted_keys), unsigned)
    steps: dict[str, Step] = dict(
        zip(
            STEPS,
            (_shape, _signature, _check_files, check_schemas, check_events, check_projection, check_consistency),
            strict=True,
        )
    )
    if repository is not None:
        # Imported only when needed: offline verification needs no git.
        from gatewright.evidence.verification.repository import check_repository

        steps[REPOSITORY_STEP] = lambda reading, number: check_repository(reading, number, repository, access)
    checked, unchecked = [], []
    for number, (name, step) in enumerate(steps.items(), 1):
        why_not = step(reading, number)
        if why_not:
            unchecked.append(f"step {number} ({name}): {why_not}")
        else:
            checked.append(f"{number} {name}")
    return reading, tuple(checked), tuple(unchecked)


def _shape(reading: Reading, step: int) -> str:
    """1. Check the shape: plain files with one name each, and a manifest in canonical form, of the requested run."""
    findings = reading.findings
    try:
        reading.shape = scan(reading.root)
    except MalformedError as error:
        findings.malformed(step, error.reason, "", error.message)
    except OSError as error:
        findings.malformed(step, "unreadable", "", f"the folder cannot be read: {error.strerror}")
    for path, code in sorted(reading.shape.odd.items()):
        findings.malformed(step, code, path, "a bundle holds plain files only, each under one name")
    data = reading.document(layout.MANIFEST, step)
    if data is None:
        if layout.MANIFEST not in reading.shape.odd:
            findings.incomplete(step, "not_sealed", layout.MANIFEST, "there is no manifest: the bundle was not sealed")
        return ""
    reading.manifest_bytes = data
    try:
        reading.manifest = _manifest(data)
    except MalformedError as error:
        findings.malformed(step, "bad_manifest", layout.MANIFEST, error.message)
        return ""
    if (asked := runs_named(reading.root)) - {reading.manifest.run_id}:
        words = f"the folder is called {min(asked)}, and holds the bundle of {reading.manifest.run_id}"
        findings.wrong(step, "other_run", layout.MANIFEST, words)
    form = reading.manifest.layout or 1
    if form != layout.VERSION:
        writer = reading.manifest.versions.get("gatewright", "unknown")
        words = f"a bundle of layout {form}, and this program reads layout {layout.VERSION}: verify it with gatewright {writer}"
        findings.malformed(step, "layout_unknown", layout.MANIFEST, words)
    return ""


def _manifest(data: bytes) -> RunManifest:
    manifest = codec.decode(data, RunManifest)
    if codec.encode(manifest) != data:
        raise MalformedError("the manifest is not in canonical form")
    paths = [file.path for file in manifest.integrity.files] if manifest.integrity else []
    if not paths or len(set(paths)) != len(paths):
        raise MalformedError("the manifest must list every file, and once")
    return manifest


def _signature(reading: Reading, step: int) -> str:
    """2. Check that a trusted key signed statements about exactly these bytes of the manifest: the verdict and its checks."""
    present = {path for path in layout.ENVELOPES if path in reading.shape.files or path in reading.shape.odd}
    if reading.unsigned and not present:
        return "there is no signature, and it was asked to do without: ANYBODY may have written this bundle"
    if not reading.trusted:
        words = "no key is trusted, so no signer vouches for this bundle"
        reading.findings.wrong(step, "no_trusted_key", layout.ENVELOPE, words)
    known = reading.manifest is None or reading.manifest.layout == layout.VERSION
    envelopes = layout.ENVELOPES if known else layout.ENVELOPES[:1]
    return "; ".join(filter(None, [_envelope(reading, step, path) for path in envelopes]))


def _envelope(reading: Reading, step: int, path: str) -> str:
    findings = reading.findings
    data = reading.document(path, step)
    if data is None:
        if reading.manifest_bytes and path not in reading.shape.odd:
            findings.wrong(step, "not_signed", path, "there is no signature")
        return f"{path}: there is no signature"
    try:
        reading.payloads[path] = payload_of(data)
        if reading.trusted:
            _, key = open_envelope(data, reading.trusted)
            reading.signer = key.key_id
            _retirement(reading, step, path, key)
        statement = read_json(reading.payloads[path], Statement)
    except VerificationError as error:
        findings.wrong(step, error.reason, path, error.message)
        return ""
    except MalformedError as error:
        findings.malformed(step, error.reason, path, error.message)
        return f"{path}: the signature cannot be read"
    except UnreadableDocumentError as error:
        findings.malformed(step, "bad_statement", path, f"what was signed is no statement: {error}")
        return f"{path}: the statement cannot be read"
    signed = {subject.digest.get("sha256") for subject in statement.subject if subject.name == layout.MANIFEST}
    if reading.manifest_bytes and signed != {hashlib.sha256(reading.manifest_bytes).hexdigest()}:
        findings.wrong(step, "manifest_altered", layout.MANIFEST, f"these are not the bytes that {path} signs")
    named = reading.manifest.integrity.signer if reading.manifest and reading.manifest.integrity else ""
    if reading.signer and named and named != reading.signer:
        findings.wrong(step, "signer_differs", layout.MANIFEST, f"the manifest names another signer than that of {path}")
    return ""


def _retirement(reading: Reading, step: int, path: str, key: PublicKey) -> None:
    """Check the retirement: a retired key may sign only runs that ended before; step 6 checks the time of the end."""
    ended = reading.manifest.finished_at if reading.manifest else None
    if ended and key.was_retired_by(ended):
        words = f"the key was retired {key.retired}, and the run ended {ended}: it was no longer the gatekeeper's to sign with"
        reading.findings.wrong(step, "signed_after_retirement", path, words)


def _check_files(reading: Reading, step: int) -> str:
    """3. Check that exactly the listed files exist, with their size and digest."""
    findings, shape, listed = reading.findings, reading.shape, reading.listed
    if reading.manifest is None:
        return "there is no list of files"
    for path in layout.REQUIRED if reading.manifest.layout == layout.VERSION else ():
        if path not in listed and path != layout.MANIFEST:
            findings.incomplete(step, "required_missing", path, "every bundle has this file, and the manifest does not list it")
    for path in sorted(shape.files.keys() - listed.keys() - layout.UNLISTED):
        findings.wrong(step, "file_unlisted", path, "the manifest does not list it")
    for path in sorted(shape.folders - layout.folders_of(listed)):
        findings.wrong(step, "folder_unlisted", path, "no listed file lies in it")
    whole = [path for path, record in listed.items() if path not in shape.odd and shape.files.get(path) == record.size]
    found = dict(zip(whole, read_all(reading.root, whole, sum(shape.files[path] for path in whole)), strict=True))
    for path, record in listed.items():
        if path in shape.odd:
            continue
        size = shape.files.get(path)
        if size is None:
            findings.incomplete(step, "file_missing", path, "the manifest lists it, and it is not there")
        elif size != record.size:
            findings.wrong(step, "size_differs", path, f"it has {size} bytes, and must have {record.size}")
        else:
            _check_digest(reading, step, path, found[path], record.sha256)
    return ""


def _check_digest(reading: Reading, step: int, path: str, facts: Facts | OSError, sha256: str) -> None:
    if isinstance(facts, OSError):
        reading.findings.incomplete(step, "unreadable", path, f"cannot be read: {facts.strerror or facts}")
        return
    reading.facts[path] = facts
    if facts.sha256 != sha256:
        reading.findings.wrong(step, "digest_differs", path, "its bytes are not those that were sealed")


# Result for a tombstone: the bundle was removed on purpose, and a trusted key has signed that.
#: Code of the only finding about an intentionally pruned bundle.
PRUNED = "pruned"


def look_for_tombstone(bundle: Path, trusted: Sequence[PublicKey]) -> Verification | VerificationFinding | None:
    """Return the complete verification of a pruned bundle, a finding for an invalid tombstone, or None without a tombstone."""
    try:
        found = tombstone.read_tombstone(bundle, trusted)
    except MalformedError as error:
        return VerificationFinding(1, "malformed", error.reason, tombstone.FILE, error.message)
    except VerificationError as error:
        return VerificationFinding(1, "not_verified", error.reason, tombstone.FILE, error.message)
    if found is None:
        return None
    stone, key = found
    if (asked := runs_named(bundle)) - {stone.run_id}:
        words = f"the folder is called {min(asked)}, and its tombstone is that of {stone.run_id}"
        return VerificationFinding(1, "not_verified", "other_run", tombstone.FILE, words)
    if key.was_retired_by(stone.pruned_at):
        words = f"the key was retired {key.retired}, and the bundle was removed {stone.pruned_at}"
        return VerificationFinding(1, "not_verified", "signed_after_retirement", tombstone.FILE, words)
    words = f"the bundle was removed on {stone.pruned_at} by {stone.pruned_by}: {stone.reason}"
    return Verification(
        location=bundle,
        findings=(VerificationFinding(1, "incomplete", PRUNED, tombstone.FILE, words),),
        run_id=stone.run_id,
        status=stone.status,
        signer=key.key_id,
        manifest_sha256=stone.manifest_sha256,
        files=1,
        size=0,
        checked=("1 tombstone",),
        unchecked=("all that the bundle held: it is gone; the ledger and the artifact store may still have it",),
    )
