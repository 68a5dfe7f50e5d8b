"""``gatewright attach``: the signed statements of a verified bundle go with the commit that landed, as a git note."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.bundles.verifying import find_bundle, trusted_keys
from gatewright.app.cli.context import find_place
from gatewright.app.cli.settings import operator_access
from gatewright.contracts import RunManifest, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.git_note import attach_note, note_of
from gatewright.evidence.verification.verify import verify


@dataclass(frozen=True, slots=True)
class Attached:
    """``new`` is False when the note was there already."""

    run_id: str
    repository: str
    commit: str
    new: bool


def attach(given: str | None, repository: str | None) -> Attached:
    """Attach the bundle that ``given`` names to its landed commit in ``repository``, or where it landed.

    Raises VerificationError (``bundle_not_verified``), MalformedError (``nothing_landed``), GitError.
    """
    place = find_place()
    bundle = find_bundle(given, place)
    result = verify(bundle, trusted_keys(None, place))
    if not result.ok:
        raise VerificationError(
            f"the bundle does not verify: {result.findings[0].path}: {result.findings[0].message}", code="bundle_not_verified"
        )
    repo = codec.decode(Path(bundle / layout.MANIFEST).read_bytes(), RunManifest).repo
    if not repo.final_ref:
        raise MalformedError(f"{result.run_id} landed no commit that a note could stand on", code="nothing_landed")
    where = repository or repo.root
    new = asyncio.run(attach_note(where, repo.final_ref, note_of(bundle), operator_access()))
    return Attached(result.run_id, where, repo.final_ref, new)
