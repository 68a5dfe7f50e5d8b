"""The secrets check of the integrated gate: what brings a credential into the repository is refused.

The gatekeeper looks at the objects in its own mirror. Whether the worker has looked before does not matter. What it redacted
in the documents of roles, and what they redacted in their outputs, is put among the evidence: place and rule, no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.git.changes import TreeChange
from gatewright.git.patches.files import Reading
from gatewright.rules.gate_evidence import SECRET_SCANNER
from gatewright.secrets.changes import CleanContents, secrets_brought_in
from gatewright.secrets.documents import redacted_places
from gatewright.secrets.patch_text import secrets_in_patch_text
from gatewright.secrets.redaction import REDACTIONS
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.change.copies import SacredFiles
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext

CODE = "secret_found"
#: Redactions of one document that are listed one by one.
MAX_LISTED = 100


@dataclass(frozen=True)
class SecretsCheck:
    """``scanner``, the contents in which it has found nothing, and the sacred files of baselines."""

    scanner: SecretScanner = field(default_factory=SecretScanner)
    clean: CleanContents = field(default_factory=CleanContents)
    sacred: SacredFiles = field(default_factory=SacredFiles)

    async def judge(self, context: ChangeContext, changes: Sequence[TreeChange]) -> bool:
        """Violations name rule, path and line, never the value. True when there is none.

        Raises GitError, DeniedError (``secret_scan_failed``), ConfigurationError: the gate has failed then.
        """
        report = context.report
        report.checked("secrets", self.scanner.name)
        secrets = await secrets_brought_in(changes, context.mirror, self.scanner, self.clean)
        for secret in secrets:
            where = "the file's name" if secret.path is None else f"line {secret.line}"
            report.violate(CODE, f"secrets.{secret.rule}", f"{where} looks like a secret", secret.path)
        report.saw(SECRET_SCANNER, self.scanner.name)
        return not secrets

    async def judge_patch_text(
        self, context: ChangeContext, patch: bytes, reading: Reading, changes: Sequence[TreeChange]
    ) -> None:
        """The same of what no file gets of ``patch``: it is kept in the bundle as the worker handed it over.

        Raises what ``judge`` raises.
        """
        context.report.checked("patch_text", self.scanner.name)
        for secret in await secrets_in_patch_text(patch, reading, changes, context.mirror, self.scanner):
            words = f"line {secret.line} of the patch looks like a secret"
            context.report.violate(CODE, f"secrets.{secret.rule}", words)


def note_redactions(context: GateContext, document: Document, artifacts: Iterable[Artifact]) -> None:
    """What was taken out of a role's document, and the records of what was taken out of its outputs."""
    for pointer, rule in redacted_places(document)[:MAX_LISTED]:
        context.report.saw(f"redacted {pointer}", rule)
    for artifact in artifacts:
        if artifact.name == REDACTIONS:
            context.report.saw(REDACTIONS, artifact.sha256)
