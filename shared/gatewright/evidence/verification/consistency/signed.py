"""10. The two signed statements agree with each other and with the manifest."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatewright.evidence import layout
from gatewright.evidence.statement import Descriptor
from gatewright.evidence.verification.consistency.replayed_run import Contradiction
from gatewright.evidence.verification.reading import Reading
from gatewright.foreign_documents import UnreadableDocumentError, read_json

SIGNED = "statements_contradict"


class _Verdict(msgspec.Struct, frozen=True, rename="camel"):
    verification_result: str = ""
    result: str = ""


class _Statement(msgspec.Struct, frozen=True):
    subject: tuple[Descriptor, ...]
    predicate: _Verdict


def check_signed(reading: Reading) -> Iterator[Contradiction]:
    """Check the statements.

    1. The verdict passes when the checks pass.
    2. It passes when the manifest reports success.
    3. Both have the same subjects.
    """
    try:
        verdict, checks = (read_json(reading.payloads[path], _Statement) for path in layout.ENVELOPES)
    except (KeyError, UnreadableDocumentError):
        # Step 2 reports missing or unreadable statements.
        return
    passed = verdict.predicate.verification_result == "PASSED"
    if passed != (checks.predicate.result in {"PASSED", "WARNED"}):  # 1
        words = f"the verdict is {verdict.predicate.verification_result}, the checks are {checks.predicate.result}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, words)
    manifest = reading.manifest
    if manifest is not None and passed != (manifest.status == "SUCCESS"):  # 2
        words = f"the verdict is {verdict.predicate.verification_result}, the manifest has {manifest.status}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.MANIFEST, words)
    if verdict.subject != checks.subject:  # 3
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, "they are about different things")
