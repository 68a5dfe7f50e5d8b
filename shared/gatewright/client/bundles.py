"""Receives the bundle of a run over the bus, part by part, as an archive, which is still to be verified."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import IO

from gatewright.bus.port import Bus
from gatewright.client.refusals import decode_answer
from gatewright.contracts import BundlePart, BundleRequest, codec
from gatewright.errors import StoreError, VerificationError

#: Seconds that a part may take: the gatekeeper may have to fetch the bundle first.
PART_SECONDS = 60.0


async def receive_bundle(bus: Bus, subject: str, run_id: str, file: IO[bytes], limit: int) -> BundlePart:
    """Write the archive of the run's bundle to ``file``, ``limit`` bytes at most; returns its first part, without data.

    Raises what the gatekeeper refuses with, VerificationError (``stored_bundle_altered``) when the parts are not of one
    archive, StoreError (``stored_bundle_too_large``).
    """
    digest, offset = hashlib.sha256(), 0
    first: BundlePart | None = None
    while first is None or offset < first.size:
        question = codec.encode(BundleRequest(run_id=run_id, offset=offset))
        part = decode_answer(await bus.request(subject, question, schema="bundle_request.v1", timeout=PART_SECONDS), BundlePart)
        data = _decode_part(part)
        if first is None and part.size > limit:
            words = f"the bundle of {run_id} has {part.size} bytes; at most {limit} are received"
            raise StoreError(words, code="stored_bundle_too_large")
        first = first or part
        same = (part.manifest_sha256, part.size, part.sha256) == (first.manifest_sha256, first.size, first.sha256)
        if not same or part.run_id != run_id or part.offset != offset or not data:
            raise _odd(run_id)
        offset += len(data)
        digest.update(data)
        file.write(data)
    if offset != first.size or digest.hexdigest() != first.sha256:
        raise _odd(run_id)
    return first


def _decode_part(part: BundlePart) -> bytes:
    try:
        return base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _odd(run_id: str) -> VerificationError:
    return VerificationError(f"what came for {run_id} is not one archive", code="stored_bundle_altered")
