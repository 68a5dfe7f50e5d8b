"""10. The two signed statements say the same, about the same, as the manifest."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction
from gatewright.evidence.verification.reading import Reading
from gatewright.foreign_documents import UnreadableDocumentError, read_json

SIGNED = "statements_contradict"


class _Subject(msgspec.Struct, frozen=True):
    name: str
    digest: dict[str, str]


class _Verdict(msgspec.Struct, frozen=True, rename="camel"):
    verification_result: str = ""
    result: str = ""


class _Statement(msgspec.Struct, frozen=True):
    subject: tuple[_Subject, ...]
    predicate: _Verdict


def check_signed(reading: Reading) -> Iterator[Contradiction]:
    """1. the verdict is passed when the checks are  2. and when the manifest says so  3. both are about the same things."""
    try:
        verdict, checks = (read_json(reading.payloads[path], _Statement) for path in layout.ENVELOPES)
    except (KeyError, UnreadableDocumentError):
        # Missing or unreadable statements are what step 2 found.
        return
    passed = verdict.predicate.verification_result == "PASSED"
    if passed != (checks.predicate.result in {"PASSED", "WARNED"}):  # 1
        words = f"the verdict is {verdict.predicate.verification_result}, the checks are {checks.predicate.result}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, words)
    manifest = reading.manifest
    if manifest is not None and passed != (manifest.status == "SUCCESS"):  # 2
        words = f"the verdict is {verdict.predicate.verification_result}, the manifest says {manifest.status}"
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.MANIFEST, words)
    if verdict.subject != checks.subject:  # 3
        yield Contradiction(SIGNED, layout.ENVELOPE, layout.CHECKS, "they are about different things")
