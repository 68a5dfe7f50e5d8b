"""What of the artifact store may go into a bundle: not what a role stored with a secret in it, whatever it says about itself.

Honest roles have redacted their outputs before they stored them. A bundle is copied, shown and kept, so the gatekeeper
looks again. What it withholds is named as missing in the evidence report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gatewright.errors import ArtifactError
from gatewright.evidence.projection.materials import ArtifactSource
from gatewright.ledger.run import Run
from gatewright.secrets.scanner import SecretScanner


class ScreenedArtifacts:
    """``source`` as a bundle of ``run`` may see it.

    Let through unseen: patches that passed the gates, whose removed lines may hold a leaked value that was in the repository
    before; and, of a run that succeeded, the inputs, for the same reason. A run that was refused for a secret does not keep it.
    """

    def __init__(self, source: ArtifactSource, run: Run, scanner: SecretScanner) -> None:
        self._source = source
        self._scanner = scanner
        self._unseen = frozenset(_let_through(run))

    async def get_artifact(self, uri: str) -> bytes:
        """Raises ArtifactError (``secret_found``) for what looks like a secret, and what the source and the scanner raise."""
        data = await self._source.get_artifact(uri)
        if uri in self._unseen:
            return data
        hits = await asyncio.to_thread(self._scanner.find, data)
        if hits:
            raise ArtifactError(f"{uri} holds what looks like a secret", code="secret_found")
        return data


def _let_through(run: Run) -> Iterator[str]:
    if run.candidate is not None:
        yield from (run.candidate.patch, run.candidate.names)
    for task in run.tasks.values():
        if task.status == "SUCCESS" and task.result is not None:
            yield task.result.git.patch
        if run.status == "SUCCESS" and task.contract is not None:
            yield from (artifact.uri for artifact in task.contract.inputs.artifacts)
    if run.status == "SUCCESS" and run.accepted.request is not None:
        yield from (artifact.uri for artifact in run.accepted.request.artifacts)
