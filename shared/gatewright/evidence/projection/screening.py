"""Secret screening of artifacts before they enter a bundle, regardless of what the role claims about them.

Honest roles have redacted their outputs before storing them. A bundle is copied, displayed and kept, so the gatekeeper scans
all artifacts again, used or not. The evidence report lists withheld artifacts as missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from gatewright.errors import ArtifactError, PatchError
from gatewright.evidence.projection.materials import ArtifactSource
from gatewright.git.patches.files import Reading
from gatewright.git.patches.reader import read_patch
from gatewright.run.state import Run
from gatewright.secrets.changes import CleanContents
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.patch_text import decoded_parts, values_in_patch_text
from gatewright.secrets.scanner import Hit, SecretScanner

_BINARY = b"GIT binary patch\n"


class ScreenedArtifacts:
    """View of ``source`` for the bundle of ``run``.

    1. The candidate's patch and names pass without a scan: they are the gatekeeper's own, their additions were judged, and the
       rest was in the repository before.
    2. Of the patches that form the candidate, the text that ends up in no file is scanned. The diff gate scanned it before; the
       other text is part of 1.
    3. For the same reason, an applied patch may contain a leaked value that it removes or leaves in place.
    4. Any artifact of a run with a candidate may contain a value that the candidate's patch contains.
    5. Everything else with a secret is withheld. Binary content of patches is decoded before the scan.

    ``clean`` are the URIs in which ``scanner`` found nothing, so that a repeated seal does not scan them again.
    """

    def __init__(self, source: ArtifactSource, run: Run, scanner: SecretScanner, clean: CleanContents | None = None) -> None:
        self._clean = clean or CleanContents()
        self._source = source
        self._scanner = scanner
        self._candidate = run.candidate.patch if run.candidate is not None else ""
        self._judged = frozenset({run.candidate.patch, run.candidate.names} if run.candidate is not None else ())
        self._applied = frozenset(_applied_patches(run))
        self._composed = frozenset(_composed_patches(run))

    async def get_artifact(self, uri: str) -> bytes:
        """Return the bytes of an artifact that passes the screening.

        Raises:
            ArtifactError: it contains a suspected secret (``secret_found``). Errors of source and scanner pass through.
        """
        data = await self._source.get_artifact(uri)
        if uri in self._judged or uri in self._clean:  # 1
            return data
        search = self._values_beside if uri in self._composed else self._values
        values = await asyncio.to_thread(search, uri, data)
        if not values and uri not in self._composed | self._applied:
            self._clean.add((uri,))
        if values and self._candidate:  # 4
            shown = EarlierValues([await self._source.get_artifact(self._candidate)])
            values = [value for value in values if not shown.held(value)]
        if values:
            raise ArtifactError(f"{uri} holds what looks like a secret", code="secret_found")
        return data

    def _values_beside(self, uri: str, data: bytes) -> list[bytes]:
        """Return suspected secrets in the text of a patch that ends up in no file."""
        reading = _as_patch(data)
        return list(values_in_patch_text(data, reading, self._scanner)) if reading is not None else self._values(uri, data)

    def _values(self, uri: str, data: bytes) -> list[bytes]:
        """Return suspected secrets in ``data``."""
        applied = uri in self._applied
        hits = self._scanner.find(data)
        reading = _as_patch(data) if (hits and applied) or _BINARY in data else None
        if reading is not None and applied:  # 3
            hits = tuple(hit for hit in hits if not _is_earlier(data, reading, hit))
        values = [data[hit.start : hit.end] for hit in hits]
        for file in reading.files if reading is not None else ():
            parts = (file.binary.forward, file.binary.reverse) if file.binary is not None else ()
            for _, content in decoded_parts(data, [part for part in parts if part is not None]):  # 5
                values += [content[hit.start : hit.end] for hit in self._scanner.find(content)]
        return values


def _applied_patches(run: Run) -> Iterator[str]:
    """Yield the patches that the diff gate applied: what they remove or leave was in the repository."""
    for task in run.tasks.values():
        if task.tree and task.result is not None:
            yield task.result.git.patch


def _composed_patches(run: Run) -> Iterator[str]:
    """Yield the patches that form the run's candidate."""
    if run.candidate is not None:
        for task in run.workers():
            if task.tree and task.status == "SUCCESS" and task.result is not None:
                yield task.result.git.patch


def _as_patch(data: bytes) -> Reading | None:
    try:
        return read_patch(data)
    except PatchError:
        return None


def _is_earlier(data: bytes, reading: Reading, hit: Hit) -> bool:
    """Return whether all lines of a hit are removed lines or context of one hunk."""
    spans: Sequence[tuple[int, int]] = [(hunk.at, hunk.end) for file in reading.files for hunk in file.hunks]
    if not any(start <= hit.start and hit.end <= end for start, end in spans):
        return False
    first = data.rfind(b"\n", 0, hit.start) + 1
    return all(line.startswith((b"-", b" ")) for line in data[first : hit.end].split(b"\n"))
