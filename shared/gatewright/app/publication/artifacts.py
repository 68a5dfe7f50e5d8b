"""The files of a sealed run that can be published, each with its class. Only the bundle decides what they contain.

A file that the manifest lists has its path as its name. Some are made from the bundle: the packet, the inventories of other
tools, and the bundle itself. The same bundle gives the same bytes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.app.bills_of_materials import EXPORTS
from gatewright.app.publication.sinks import Class
from gatewright.app.report.account import BundleAccount
from gatewright.app.report.packet import packet
from gatewright.contracts import EnvironmentInventory, codec
from gatewright.errors import DeniedError, MalformedError, PatchError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.store import archive
from gatewright.evidence.verification.findings import Verification
from gatewright.git.patches.reader import read_patch
from gatewright.patterns import BytesPattern
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.rules import CANARY
from gatewright.secrets.scanner import SecretScanner
from gatewright.work_documents.provenance import provenance_of

PACKET: Final = "packet.md"
BUNDLE: Final = "bundle.zip"
INVENTORIES: Final = {"inventory.cdx.json": "cyclonedx", "inventory.spdx.json": "spdx"}
#: Published unless ``--file`` names others.
USUAL: Final = (layout.PATCH, PACKET, layout.REVIEW_REPORT, layout.TEST_REPORT, layout.COMPLETION_REPORT, *INVENTORIES)
_REDACTION: Final = BytesPattern(rb"\[redacted:[a-z_]{1,64}\]")


@dataclass(frozen=True, slots=True)
class SealedRun:
    """A verified bundle of a run that succeeded."""

    account: BundleAccount
    history: RunHistory
    verification: Verification


@dataclass(frozen=True, slots=True)
class Publishable:
    """A file to publish. ``basis``: what the class rests on."""

    name: str
    data: bytes
    classification: Class
    basis: str
    redactions: int


def sealed_run(account: BundleAccount, verification: Verification) -> SealedRun:
    """Return the run of a bundle that was verified.

    Raises:
        VerificationError: it does not verify (``bundle_not_verified``).
        DeniedError: the run did not succeed (``publication_run_failed``).
    """
    if not verification.ok:
        first = verification.findings[0]
        words = f"the bundle does not verify: {first.path or account.folder.name}: {first.message} ({first.code})"
        raise VerificationError(words, code="bundle_not_verified")
    if not verification.signer:
        raise VerificationError("the bundle is not signed", code="bundle_not_verified")
    history = account.history
    if history is None or history.run.status != "SUCCESS":
        words = f"{verification.run_id} did not succeed: nothing of it is published or deployed"
        raise DeniedError(words, code="publication_run_failed")
    return SealedRun(account, history, verification)


def choose_files(sealed: SealedRun, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names to publish, each once: those given, or the usual ones that the run has.

    Raises MalformedError (``publication_file_unknown``) for a name that the bundle does not have.
    """
    present = {*sealed.account.listed, PACKET, BUNDLE, *(INVENTORIES if _inventory_path(sealed) else ())}
    unknown = [name for name in names if name not in present]
    if unknown:
        words = f"the bundle has no {unknown[0][:200]!r}: name {PACKET}, {BUNDLE} or a path of its manifest"
        raise MalformedError(words, code="publication_file_unknown")
    return tuple(dict.fromkeys(names or (name for name in USUAL if name in present)))


def make_file(sealed: SealedRun, name: str, limit: int) -> Publishable:
    """Return the file ``name``.

    Raises:
        DeniedError: it is larger than ``limit`` bytes (``publication_too_large``).
        VerificationError: it differs from the manifest (``bundle_not_verified``).
    """
    listed = sealed.account.listed.get(name)
    size = listed.size if listed is not None else sealed.verification.size if name == BUNDLE else 0
    if size > limit:
        raise DeniedError(f"{name} has {size} bytes; the sink takes {limit}", code="publication_too_large")
    data = _file_content(sealed, name)
    if listed is not None and hashlib.sha256(data).hexdigest() != listed.sha256:
        raise VerificationError(f"{name} changed after the bundle was verified", code="bundle_not_verified")
    if len(data) > limit:
        raise DeniedError(f"{name} has {len(data)} bytes; the sink takes {limit}", code="publication_too_large")
    kind, basis = _class_of(sealed, name)
    return Publishable(name, data, kind, basis, _REDACTION.count(data))


def refuse_secrets(sealed: SealedRun, file: Publishable, scanner: SecretScanner) -> None:
    """Check that the file has no probable secret; of the bundle, each of its files. Values from the base branch are none.

    Raises:
        DeniedError: it has one (``publication_secret_found``, ``canary_leaked``), or could not be scanned.
    """
    before = EarlierValues([_earlier_text(_file_content(sealed, layout.PATCH))])
    for name in sealed.account.files if file.name == BUNDLE else (file.name,):
        data = file.data if name == file.name else _file_content(sealed, name)
        hits = scanner.find(data)
        if any(hit.rule == CANARY for hit in hits):
            raise DeniedError(f"{name} holds the canary of a box", code="canary_leaked")
        rules = {hit.rule for hit in hits if not before.held(data[hit.start : hit.end])}
        if rules:
            raise DeniedError(f"{name} holds what looks like a secret ({min(rules)})", code="publication_secret_found")


def _earlier_text(patch: bytes) -> bytes:
    """Return the context and the removed lines of the candidate's patch: their values were in the repository before."""
    try:
        hunks = [hunk for file in read_patch(patch).files for hunk in file.hunks]
    except PatchError:
        return b""
    lines = (line for hunk in hunks for line in patch[hunk.at : hunk.end].splitlines(keepends=True))
    return b"".join(line for line in lines if line.startswith((b" ", b"-")))


def _file_content(sealed: SealedRun, name: str) -> bytes:
    account = sealed.account
    if name in account.files:
        return (account.folder / name).read_bytes()
    if name == PACKET:
        return packet(account, sealed.verification).encode()
    if name == BUNDLE:
        with tempfile.TemporaryDirectory(prefix="gatewright-publication-") as scratch:
            packed = Path(scratch) / BUNDLE
            archive.pack(account.folder, packed)
            return packed.read_bytes()
    tests = sealed.history.run.tests
    data = (account.folder / _inventory_path(sealed)).read_bytes()
    inventory = codec.decode(data, EnvironmentInventory)
    return EXPORTS[INVENTORIES[name]](inventory, sealed.verification.run_id, tests.finished_at if tests is not None else "")


def _inventory_path(sealed: SealedRun) -> str:
    """Return the path of the inventory of the last tests; empty without one."""
    tests = sealed.history.run.tests
    figures = tests.inventory if tests is not None else None
    path = layout.artifact(figures.sha256.lower()) if figures is not None else ""
    return path if path in sealed.account.listed else ""


def _class_of(sealed: SealedRun, name: str) -> tuple[Class, str]:
    """Return the class of a file. The bundle has the strictest class of all its files."""
    tasks = provenance_of(sealed.history, sealed.account.listed).tasks
    outputs = [each for task in tasks for each in task.outputs]
    restricted = [each for each in outputs if each.classification == "restricted" and name in {each.path, BUNDLE}]
    if restricted:
        return "restricted", restricted[0].basis
    return "internal", "the class of the repository; no gate found a secret"
