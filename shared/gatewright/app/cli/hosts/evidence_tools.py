"""The evidence of a run for a host: fetched over the bus, verified here, read file by file."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from gatewright.app.cli.bundle_sources import receive_bundle, trust
from gatewright.app.cli.evidence import Checked, verdict_lines, verification_document
from gatewright.app.cli.hosts.access import Detail, HostAccess, answer, excerpt, refuse_known_errors
from gatewright.app.cli.hosts.run_tools import RunName
from gatewright.app.cli.runs.sources import find_run
from gatewright.errors import MalformedError
from gatewright.evidence.verification.verify import verify

_MOST_FILES = 2000
#: Maximum bytes of a bundle's file for a host; ``gatewright`` reads larger ones.
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True)
class EvidenceTools:
    """Tools for bundles of the publisher's own runs. The gatekeeper sends no others."""

    access: HostAccess

    @refuse_known_errors
    async def verify_run(self, run_id: RunName, detail: Detail = "compact") -> CallToolResult:
        """Verify the signed bundle of an ended run, on this host, with the keys that its home folder trusts."""
        trusted = await asyncio.to_thread(trust, (), self.access.place)
        async with self._bundle(run_id) as bundle:
            result = await asyncio.to_thread(verify, bundle, [each.public for each in trusted])
        signer = next((each.known for each in trusted if each.public.key_id == result.signer), None)
        checked = Checked(result, signer)
        if detail == "full":
            return answer(verification_document(checked))
        return answer({"ok": result.ok, "outcome": result.outcome, "run_id": result.run_id, "words": verdict_lines(checked)})

    @refuse_known_errors
    async def list_bundle(self, run_id: RunName) -> CallToolResult:
        """The files of the bundle of an ended run, with their sizes in bytes."""
        async with self._bundle(run_id) as bundle:
            files = await asyncio.to_thread(_files, bundle)
        listed = [{"path": path, "bytes": size} for path, size in files[:_MOST_FILES]]
        return answer({"run_id": bundle.name, "files": listed, "cut": len(files) > _MOST_FILES})

    @refuse_known_errors
    async def read_bundle_file(
        self,
        run_id: RunName,
        path: Annotated[str, Field(max_length=1000, description="As list_bundle names it.")],
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=2000)] = 400,
    ) -> CallToolResult:
        """Lines of one text file of a bundle: a report, the patch, events. Not verified: verify_run does that."""
        text = await self.bundle_text(run_id, path)
        return answer({"path": path, **excerpt(text, first_line, lines)})

    async def bundle_text(self, run_id: str, path: str) -> str:
        """Return a text file of a bundle. Raises MalformedError if the bundle has no file of that name."""
        async with self._bundle(run_id) as bundle:
            sizes = dict(await asyncio.to_thread(_files, bundle))
            if path not in sizes or sizes[path] > _LARGEST:
                raise MalformedError(
                    f"the bundle of {bundle.name} has no file {path} that could be shown", code="invalid_input"
                )
            data = await asyncio.to_thread((bundle / path).read_bytes)
        if b"\0" in data:
            raise MalformedError(f"{path} is no text", code="invalid_input")
        return data.decode("utf-8", "replace")

    @contextlib.asynccontextmanager
    async def _bundle(self, wanted: str) -> AsyncIterator[Path]:
        """Yield the bundle in a temporary folder. Raises as ``received`` does."""
        async with self.access.runs() as source:
            run_id = await find_run(source, wanted)
        with tempfile.TemporaryDirectory(prefix="gatewright-host-") as folder:
            async with self.access.client() as client:
                bundle = await receive_bundle(client, run_id, Path(folder))
            yield bundle


def _files(bundle: Path) -> list[tuple[str, int]]:
    """Return regular files with their sizes, by name. Archives were checked when they were unpacked."""
    found = (path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted((path.relative_to(bundle).as_posix(), path.stat().st_size) for path in found)
