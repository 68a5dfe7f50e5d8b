"""A lost bundle, rebuilt from the ledger and the artifact store: the same bytes, or nothing."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from gatewright.bus.port import Bus
from gatewright.errors import ConfigurationError, MalformedError, UnavailableError, VerificationError
from gatewright.evidence.projection.screening import ScreenedArtifacts
from gatewright.evidence.signing.durable_files import sync_folder
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter, Sealed
from gatewright.ledger.expiry import check_whole
from gatewright.ledger.store import Ledger
from gatewright.secrets.scanner import SecretScanner


async def rebuild(bus: Bus, run_id: str, root: Path, signer: Signer, scanner: SecretScanner) -> Sealed:
    """Write the bundle of an ended run to ``root/<run_id>``, atomically.

    ``scanner`` screens artifacts, as when the run was sealed. The result is compared with the digest that the ledger
    recorded then.

    Raises:
        MalformedError: ``run_unknown``, ``run_expired``, ``run_not_ended``, ``bundle_exists``.
        ConfigurationError: ``key_differs``: another key signed it.
        VerificationError: ``rebuild_differs``.
        ArtifactError: an artifact is missing or damaged.
        BusError: the bus cannot serve.
        UnavailableError: ``bundle_unwritable``.
    """
    position = await Ledger(bus).load(run_id)
    run = position.run
    if run is None:
        raise MalformedError(f"the ledger has no run {run_id}", code="run_unknown")
    check_whole(run, position.transitions[0].events[0].seq)
    if not run.ended:
        raise MalformedError(f"{run_id} is in state {run.state}: it has no bundle before it has ended", code="run_not_ended")
    if run.sealed is not None and run.sealed.signer != signer.key_id:
        raise ConfigurationError(
            f"{run_id} was signed by {run.sealed.signer}; this key is {signer.key_id}. Name that key with --signing-key",
            code="key_differs",
        )
    place = root / run_id
    if place.exists() or place.is_symlink():
        raise MalformedError(f"{place} is there already: move it away, or name another folder with -o", code="bundle_exists")
    draft = await asyncio.to_thread(_draft, root)
    try:
        sealed = await BundleWriter(draft).seal(
            run, position.transitions, ScreenedArtifacts(bus, run, scanner), signer, position.sequences
        )
        if run.sealed is not None and sealed.manifest_sha256 != run.sealed.manifest_sha256:
            raise VerificationError(
                f"{run_id} was sealed as {run.sealed.manifest_sha256}, and what the ledger gives now is "
                f"{sealed.manifest_sha256}: an artifact is gone, or another version wrote the bundle",
                code="rebuild_differs",
            )
        await asyncio.to_thread(_publish, draft / run_id, place)
    finally:
        await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
    return Sealed(sealed.manifest_sha256, sealed.signer, str(place))


def _draft(root: Path) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".rebuild-", dir=root))
    except OSError as error:
        raise UnavailableError(f"{root} cannot be written: {error.strerror}", code="bundle_unwritable") from error


def _publish(draft: Path, place: Path) -> None:
    """Move the finished folder to its place, durably."""
    try:
        draft.rename(place)
        sync_folder(place.parent)
    except OSError as error:
        raise UnavailableError(f"{place} cannot be written: {error.strerror}", code="bundle_unwritable") from error
