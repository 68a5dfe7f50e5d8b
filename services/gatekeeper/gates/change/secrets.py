"""The secrets check of the integrated gate: refuses changes that bring a credential into the repository.

The gatekeeper scans the objects in its own mirror, regardless of any scan by the worker. Redactions in documents and outputs of
roles are recorded as evidence: place and rule, never the value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.errors import ArtifactError
from gatewright.git.changes import TreeChange
from gatewright.git.patches.files import Reading
from gatewright.rules.gate_evidence import SECRET_SCANNER
from gatewright.secrets.changes import CleanContents, secrets_brought_in
from gatewright.secrets.documents import redacted_places
from gatewright.secrets.patch_text import secrets_in_patch_text
from gatewright.secrets.redaction import REDACTIONS, read_record
from gatewright.secrets.rules import CANARY, code_of
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.change.copies import SacredFiles
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext

#: Maximum number of listed redactions per document.
MAX_LISTED = 100


@dataclass(frozen=True)
class SecretsCheck:
    """Secret scanner with a cache of clean contents and of the sacred files of baselines."""

    scanner: SecretScanner = field(default_factory=SecretScanner)
    clean: CleanContents = field(default_factory=CleanContents)
    sacred: SacredFiles = field(default_factory=SacredFiles)

    async def judge(self, context: ChangeContext, changes: Sequence[TreeChange]) -> bool:
        """Scan the changed contents. Violations name rule, path and line, never the value.

        Returns:
            True when no credential was found.

        Raises:
            GitError: the mirror cannot be read.
            DeniedError: the scan failed (``secret_scan_failed``), so the gate fails.
            ConfigurationError: the scanner is not available.
        """
        report = context.report
        report.checked("secrets", self.scanner.name)
        secrets = await secrets_brought_in(changes, context.mirror, self.scanner, self.clean)
        for secret in secrets:
            where = "the file's name" if secret.path is None else f"line {secret.line}"
            report.violate(code_of(secret.rule), f"secrets.{secret.rule}", f"{where} looks like a secret", secret.path)
        report.saw(SECRET_SCANNER, self.scanner.name)
        return not secrets

    async def judge_patch_text(
        self, context: ChangeContext, patch: bytes, reading: Reading, changes: Sequence[TreeChange]
    ) -> None:
        """Scan the parts of ``patch`` that end up in no file, since the bundle keeps the patch unchanged.

        Raises what ``judge`` raises.
        """
        context.report.checked("patch_text", self.scanner.name)
        for secret in await secrets_in_patch_text(patch, reading, changes, context.mirror, self.scanner):
            words = f"line {secret.line} of the patch looks like a secret"
            context.report.violate(code_of(secret.rule), f"secrets.{secret.rule}", words)


async def judge_redactions(context: GateContext, document: Document, artifacts: Iterable[Artifact]) -> None:
    """Record the redactions in a role's document and in its outputs. A canary among them is a violation."""
    found = redacted_places(document)
    for pointer, rule in found[:MAX_LISTED]:
        context.report.saw(f"redacted {pointer}", rule)
    for artifact in artifacts:
        if artifact.name == REDACTIONS:
            context.report.saw(REDACTIONS, artifact.sha256)
            with contextlib.suppress(ArtifactError):  # a missing one is refused elsewhere
                found += read_record(await context.artifacts.get_artifact(artifact.uri))
    for place in dict.fromkeys(place for place, rule in found if rule == CANARY):
        words = f"{place} holds the canary of a box: the command that wrote it copied what no honest one prints"
        context.report.violate(code_of(CANARY), f"secrets.{CANARY}", words)
