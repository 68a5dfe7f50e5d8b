"""Grants: approvals in advance, for a pattern and a period. Checks their signature and whether they cover a request. Pure.

A grant answers one rule on one repository. It never covers what must be approved each time: secrets, tests and pipelines,
destructive operations, broad scopes, doubts, votes, high risk, and requests with an exact phrase.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gatewright.contracts import ApprovalGrant, ApproverRoster, GrantRevocation, codec
from gatewright.contracts.people.approvals import ApprovalRule, AskStage, RosterPerson, SignedDecision
from gatewright.errors import DeniedError, GatewrightError
from gatewright.git.patches.version_moves import MOVES
from gatewright.rules.approvals import TIERS, MatchedRule, contract_digest, found_words, unasked_rules
from gatewright.rules.people.ownership import is_orderer_unknown, is_own
from gatewright.rules.people.signers import named_signer
from gatewright.rules.people.signing_times import check_signing_time, require_time
from gatewright.rules.quorum import names_person
from gatewright.rules.routing import PathPatterns
from gatewright.run.state import Run

#: Namespace of grant signatures (``ssh-keygen -Y sign -n``), so that the signature of a single decision is no grant.
GRANT_NAMESPACE = "gatewright-grant-v1"
REVOCATION_NAMESPACE = "gatewright-grant-revocation-v1"
#: The only reasons that can be approved in advance.
GRANTABLE = frozenset({"agent", "landing", "protected_class", "risk_tier"})
_CLASS = "protected_class:"


@dataclass(frozen=True, slots=True)
class JudgedGrant:
    """A grant with a valid signature: its person and key."""

    grant: ApprovalGrant
    signed: SignedDecision
    person: RosterPerson
    fingerprint: str


def document_digest(signed: SignedDecision) -> str:
    """Return the digest of the exact signed bytes."""
    return hashlib.sha256(signed.document.encode()).hexdigest()


def judge_grant(signed: SignedDecision, roster: ApproverRoster, now: datetime) -> JudgedGrant:
    """Check that a grant is canonical and signed by a valid key of the roster, of the person that it names.

    Raises:
        MalformedError: it cannot be decoded.
        VerificationError: ``signature_invalid``.
        DeniedError: the key is not valid, or belongs to another person.
    """
    data = signed.document.encode()
    grant = codec.decode(data, ApprovalGrant)
    person, key_print = named_signer(roster, signed, grant, GRANT_NAMESPACE, grant.person, now)
    return JudgedGrant(grant, signed, person, key_print)


def judge_revocation(signed: SignedDecision, roster: ApproverRoster, now: datetime) -> GrantRevocation:
    """Check a revocation like ``judge_grant``. Anyone on the roster may revoke, since that only removes an approval."""
    revocation = codec.decode(signed.document.encode(), GrantRevocation)
    named_signer(roster, signed, revocation, REVOCATION_NAMESPACE, revocation.person, now)
    return revocation


def check_new(judged: JudgedGrant, rule: ApprovalRule | None, now: datetime) -> None:
    """Check that a grant may be submitted now.

    The maximum age of its signature follows from its maximum duration.

    Raises:
        DeniedError: ``signing_time_wrong``, ``grant_too_wide``, ``grant_over``, ``approver_not_allowed``.
    """
    grant = judged.grant
    check_signing_time(grant.made_at, None, now)
    if require_time(grant.not_after, "grant_too_wide") <= now:
        raise DeniedError(f"{grant.grant_id} is over since {grant.not_after}", code="grant_over")
    if rule is None:
        raise DeniedError(f"there is no rule {grant.rule} for {grant.repository}", code="grant_too_wide")
    _check_size(judged, rule)


def check_revocation(revocation: GrantRevocation, grant: ApprovalGrant, now: datetime) -> None:
    """Check that a revocation was signed after its grant was made.

    Raises:
        DeniedError: ``signing_time_wrong``.
    """
    check_signing_time(revocation.revoked_at, grant.made_at, now)


def in_force(judged: JudgedGrant, now: datetime) -> bool:
    """Return whether the grant's period includes ``now`` and its key is valid."""
    if not require_time(judged.grant.made_at, "grant_too_wide") <= now < require_time(judged.grant.not_after, "grant_too_wide"):
        return False
    try:
        judge_grant(judged.signed, ApproverRoster(version="1", people=(judged.person,)), now)
    except GatewrightError:
        return False
    return True


def grantable(run: Run, stage: AskStage) -> tuple[MatchedRule, ...]:
    """Return the upcoming requests that a grant may answer: none about the result of a review."""
    if stage == "candidate" and not run.kind.lands:
        return ()
    return tuple(each for each in unasked_rules(run, stage) if each.rule.grants is not None and not each.rule.autopilot)


def subject_of(run: Run, rule: ApprovalRule) -> str:
    """Return the subject of a use: the candidate's tree, or the contract's digest."""
    if rule.stage == "candidate":
        return run.candidate.tree if run.candidate is not None else ""
    return contract_digest(run.contract) if run.contract is not None else ""


def why_uncovered(run: Run, rule: ApprovalRule, judged: JudgedGrant, paths: Sequence[bytes], now: datetime) -> str:
    """Return as text why a grant does not answer ``rule`` for ``run``; empty when it does.

    1. Its period includes now.
    2. It is about this repository and this rule.
    3. The run's rule allows it, and names its person.
    4. The run is not the person's own.
    5. Nothing requires approval each time.
    6. Its paths cover each file, and its limit on version changes holds.
    7. The risk is within its limit.

    Args:
        run: the run.
        rule: the rule that requires approval.
        judged: the grant.
        paths: the candidate's changed paths.
        now: the current time.
    """
    grant, contract = judged.grant, run.contract
    if contract is None or not subject_of(run, rule):
        return "there is nothing to approve yet"
    if not in_force(judged, now):  # 1
        return "its time has not begun or is over, or its key is not in force"
    if (grant.repository, grant.rule, grant.reason) != (run.accepted.repository_url, rule.name, rule.reason):  # 2
        return "it is about another repository or another rule"
    try:
        _check_size(judged, rule)  # 3
    except DeniedError as error:
        return error.message
    if not rule.yourself and is_own(run, judged.person):  # 4
        return f"{judged.person.name} may not approve a run of their own"
    if not rule.yourself and is_orderer_unknown(run):
        return f"it is not known who ordered the run, so {judged.person.name} may have"
    beyond = _elsewhere(run, rule, grant, paths) or _beyond_versions(run, grant)
    return _asked_each_time(run, grant) or beyond or _riskier(run, rule, grant)


def _check_size(judged: JudgedGrant, rule: ApprovalRule) -> None:
    """Check that the rule permits the size of the grant. Raises DeniedError."""
    grant, bounds = judged.grant, rule.grants
    words = ""
    if (
        bounds is None
        or rule.reason not in GRANTABLE
        or rule.phrase
        or rule.risk == "high"
        or rule.reason != grant.reason
        or rule.approvals > 1
    ):
        words = f"the rule {rule.name} lets nothing be approved in advance for {grant.reason}"
    elif (
        not timedelta()
        < require_time(grant.not_after, "grant_too_wide") - require_time(grant.made_at, "grant_too_wide")
        <= timedelta(seconds=bounds.within_seconds)
    ):
        words = f"the rule {rule.name} lets a grant last {bounds.within_seconds} seconds"
    elif grant.max_uses > bounds.uses:
        words = f"the rule {rule.name} lets a grant be used {bounds.uses} times"
    elif TIERS.index(rule.risk) > TIERS.index(grant.risk_at_most):
        words = f"the rule {rule.name} is of {rule.risk} risk, and the grant of {grant.risk_at_most}"
    elif grant.versions is not None and rule.stage != "candidate":
        words = f"the rule {rule.name} asks before there is a change: how far versions move is not known then"
    elif unclear := [pattern for pattern in grant.paths if not _is_plain(pattern)]:
        words = f"{unclear[0][:200]!a} is no plain path: a folder (docs/), a file (README.md) or an ending of names (*.md)"
    if words:
        raise DeniedError(words, code="grant_too_wide")
    if not names_person(rule.approvers, judged.person):
        words = f"{judged.person.name} may not decide {rule.name}: {', '.join(rule.approvers)}"
        raise DeniedError(words, code="approver_not_allowed")


def _is_plain(pattern: str) -> bool:
    """Return whether a pattern is normalised, relative and stays inside; an extension needs a dot, so that it cannot match all
    files.
    """
    parts = pattern.removesuffix("/").split("/")
    plain = not {"", ".", ".."} & set(parts) and pattern.isprintable() and unicodedata.normalize("NFC", pattern) == pattern
    return plain and (not pattern.startswith("*") or "." in pattern)


def _asked_each_time(run: Run, grant: ApprovalGrant) -> str:
    scope = run.contract.scope if run.contract is not None else None
    if scope is not None and scope.destructive:
        return "the contract lists destructive operations"
    if any(found_words(run, "broad_scope")):
        return "the scope is broad"
    allowed = {f"{_CLASS}{name}" for name in grant.classes}
    for found in run.found_reasons:
        if found.reason.startswith(_CLASS) and found.reason not in allowed and any(found_words(run, found.reason)):
            return f"it touches {found.words}"
    return ""


def _elsewhere(run: Run, rule: ApprovalRule, grant: ApprovalGrant, paths: Sequence[bytes]) -> str:
    """Compare paths exactly: another case or normal form is another file.

    Before there is a change, use the contract's paths.
    """
    if rule.stage == "contract":
        folders = PathPatterns([each for each in grant.paths if not each.startswith("*")], folded=False)
        allowed = [path.encode("utf-8", "surrogatepass") for path in run.contract.allowed_paths] if run.contract else []
        beyond = [path for path in allowed if not (folders.cover(path) or folders.cover(path.rstrip(b"/") + b"/"))]
        return f"the contract opens {ascii(beyond[0][:200])[1:]}" if beyond else "" if allowed else "no paths are known"
    patterns = PathPatterns(grant.paths, folded=False)
    beyond = [path for path in paths if not patterns.cover(path)]
    return f"it changes {ascii(beyond[0][:200])[1:]}" if beyond else "" if paths else "no changed paths are known"


def _beyond_versions(run: Run, grant: ApprovalGrant) -> str:
    """Compare with the version changes that the gatekeeper found in its own diff; ``verify`` recomputes them."""
    if grant.versions is None:
        return ""
    moved = run.candidate.versions if run.candidate is not None else None
    if moved is None:
        return "it does something else than move versions up"
    return f"it moves a {moved} version" if MOVES.index(moved) > MOVES.index(grant.versions) else ""


def _riskier(run: Run, rule: ApprovalRule, grant: ApprovalGrant) -> str:
    """Return why the risk exceeds the grant. Classes named by the grant add no risk, unless the rule asks about risk itself."""
    if rule.stage == "contract":
        return ""
    if run.routing is None:
        routed = rule.reason == "risk_tier" or run.accepted.routing is not None
        return "how much the change risks was not recorded" if routed else ""
    most = TIERS.index(grant.risk_at_most)
    for signal in run.routing.signals:
        named = signal.signal == "protected" and grant.classes and rule.reason != "risk_tier"
        if TIERS.index(signal.tier) > most and not named:
            return f"the change is of {signal.tier} risk: {signal.detail}"
    return ""
