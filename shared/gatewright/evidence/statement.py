"""The gatekeeper's signed statements about a bundle: two in-toto Statements v1 about the same subjects.

Subjects: the manifest (and through it every file), the canonical patch, the landed commit and its tree. One predicate is a SLSA
verification summary (the verdict), the other an in-toto test result (each gate and each acceptance command). Any in-toto or
SLSA tool can read them; they contain no private format. Pure; ``signing/envelopes.py`` makes signatures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from gatewright.contracts.reports import TestCommand
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.summary_reports import outcomes
from gatewright.rules.gate_evidence import POLICIES
from gatewright.rules.reports.tests import passed

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SUMMARY_TYPE = "https://slsa.dev/verification_summary/v1"
CHECKS_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
VERIFIER = "urn:gatewright:gatekeeper"
POLICY = "urn:gatewright:policies"

Result = Literal["PASSED", "WARNED", "FAILED"]


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object identified by digest (in-toto ResourceDescriptor)."""

    name: str
    digest: dict[str, str]
    uri: str = ""


class Verifier(msgspec.Struct, frozen=True):
    id: str
    version: dict[str, str]


class VerifierPolicy(msgspec.Struct, frozen=True):
    uri: str
    digest: dict[str, str]


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A SLSA verification summary. ``verified_levels`` names the passed gates; only ``FAILED`` for a failed run."""

    verifier: Verifier
    time_verified: str
    resource_uri: str
    policy: VerifierPolicy
    verification_result: str
    verified_levels: tuple[str, ...]


class Checks(msgspec.Struct, frozen=True, rename="camel"):
    """An in-toto test result. Names are ``gate/<gate>`` and ``acceptance/<name of the test>``.

    ``configuration`` is the reference of the checks: the policies and the contract. Warnings are acceptance tests that failed
    without being required, or passed only when repeated.
    """

    result: Result
    configuration: tuple[Descriptor, ...]
    passed_tests: tuple[str, ...]
    warned_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]


class Statement(msgspec.Struct, frozen=True, rename="camel"):
    """A decoded statement: ``predicate`` are the bytes of a JSON value."""

    type: str = msgspec.field(name="_type")
    subject: tuple[Descriptor, ...]
    predicate_type: str
    predicate: msgspec.Raw


def make_statements(history: RunHistory, manifest: bytes, digests: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytes to sign by envelope name, in canonical JSON; deterministic for a bundle.

    Args:
        history: the ended run.
        manifest: the exact bytes of ``manifest.json``.
        digests: the sha256 of the bundle's files by path.
    """
    subjects = tuple(_subjects(history, manifest, digests))
    predicates = {
        layout.ENVELOPE: (SUMMARY_TYPE, msgspec.json.encode(_summary(history), order="sorted")),
        layout.CHECKS: (CHECKS_TYPE, msgspec.json.encode(_checks(history, digests), order="sorted")),
    }
    return {
        path: msgspec.json.encode(Statement(STATEMENT_TYPE, subjects, kind, msgspec.Raw(predicate)), order="sorted")
        for path, (kind, predicate) in predicates.items()
    }


def _subjects(history: RunHistory, manifest: bytes, digests: Mapping[str, str]) -> Iterable[Descriptor]:
    landed = history.run.landed
    yield Descriptor(layout.MANIFEST, {"sha256": hashlib.sha256(manifest).hexdigest()})
    yield Descriptor(layout.PATCH, {"sha256": digests.get(layout.PATCH, "")})
    if landed and landed.commit:
        yield Descriptor(landed.ref or "commit", {"gitCommit": landed.commit})
    if landed and landed.tree:
        yield Descriptor("tree", {"gitTree": landed.tree})


def _summary(history: RunHistory) -> Summary:
    run = history.run
    good = [name for name, outcome in msgspec.structs.asdict(outcomes(history.decisive)).items() if outcome.passed]
    succeeded = run.status == "SUCCESS"
    return Summary(
        verifier=Verifier(VERIFIER, run.accepted.versions),
        time_verified=run.finished_at,
        resource_uri=run.accepted.repository_url,
        policy=VerifierPolicy(POLICY, {"sha256": run.accepted.policy_sha256}),
        verification_result="PASSED" if succeeded else "FAILED",
        verified_levels=tuple(f"GATEWRIGHT_{name.upper()}" for name in good) if succeeded else ("FAILED",),
    )


def _checks(history: RunHistory, digests: Mapping[str, str]) -> Checks:
    """Return the checks. They pass only for a run that succeeded, since a run may end for a reason that no check names."""
    run = history.run
    verdicts: dict[str, Result] = {}
    for gate in history.decisive:
        name = f"gate/{gate.gate}"
        if verdicts.get(name) != "FAILED":
            verdicts[name] = "PASSED" if gate.verdict == "PASS" else "FAILED"
    for command in run.tests.commands if run.tests else ():
        verdicts[f"acceptance/{command.name}"] = _result(command)
    names: dict[Result, tuple[str, ...]] = {
        kind: tuple(name for name, verdict in verdicts.items() if verdict == kind) for kind in ("PASSED", "WARNED", "FAILED")
    }
    good: Result = "WARNED" if names["WARNED"] else "PASSED"
    return Checks(
        result=good if run.status == "SUCCESS" and not names["FAILED"] else "FAILED",
        configuration=tuple(_configuration(history, digests)),
        passed_tests=names["PASSED"],
        warned_tests=names["WARNED"],
        failed_tests=names["FAILED"],
    )


def _result(command: TestCommand) -> Result:
    """Return the result of one run of a command; the last run decides."""
    if passed(command):
        return "PASSED" if command.run == 1 else "WARNED"
    return "FAILED" if command.must_pass else "WARNED"


def _configuration(history: RunHistory, digests: Mapping[str, str]) -> Iterable[Descriptor]:
    accepted = history.run.accepted
    yield Descriptor(POLICIES, {"sha256": accepted.policy_sha256}, POLICY)
    for name, sha256 in sorted(accepted.policies.items()):
        yield Descriptor(f"policies/{name}", {"sha256": sha256})
    contract = digests.get(layout.CONTRACT)
    if history.run.contract and contract:
        yield Descriptor(layout.CONTRACT, {"sha256": contract})
