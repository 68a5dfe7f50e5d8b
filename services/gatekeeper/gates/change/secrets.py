"""The secrets check of the integrated gate: what brings a credential into the repository is refused.

The gatekeeper looks at the objects in its own mirror. Whether the worker has looked before does not matter. What it redacted
in the documents of roles, and what they redacted in their outputs, is put among the evidence: place and rule, no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.git.changes import TreeChange
from gatewright.rules.gate_evidence import SECRET_SCANNER
from gatewright.secrets.changes import CleanContents, secrets_brought_in
from gatewright.secrets.documents import redacted_places
from gatewright.secrets.redaction import REDACTIONS
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext

CODE = "secret_found"
#: Redactions of one document that are listed one by one.
MAX_LISTED = 100


@dataclass(frozen=True)
class SecretsCheck:
    """``scanner``, and the contents that it has report clean."""

    scanner: SecretScanner = field(default_factory=SecretScanner)
    clean: CleanContents = field(default_factory=CleanContents)

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


def note_redactions(context: GateContext, document: Document, artifacts: Iterable[Artifact]) -> None:
    """What was taken out of a role's document, and the records of what was taken out of its outputs."""
    for pointer, rule in redacted_places(document)[:MAX_LISTED]:
        context.report.saw(f"redacted {pointer}", rule)
    for artifact in artifacts:
        if artifact.name == REDACTIONS:
            context.report.saw(REDACTIONS, artifact.sha256)
