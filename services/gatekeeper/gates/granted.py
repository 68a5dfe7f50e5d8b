"""Approvals in advance: applies the first grant that covers a run's request, and reports which one."""

from __future__ import annotations

from gatewright.contracts import ApproverRoster
from gatewright.errors import ConfigurationError, GatewrightError
from gatewright.rules.approvals import MatchedRule, stage_of
from gatewright.rules.gate_evidence import CANDIDATE_TREE, ROSTER, decided_rule
from gatewright.rules.grants import grantable, judge_grant, subject_of, why_uncovered
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.gate_checks import GrantClaim
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.landing.completion import changed_paths
from gatewright.services.gatekeeper.gates.standing_grants import GrantRecord, StandingGrants


async def claim_grants(context: GateContext, run: Run, grants: StandingGrants) -> tuple[tuple[GrantClaim, ...], str]:
    """Claim the grants that answer the upcoming requests of the run. Each claim consumes one use.

    An unreadable roster makes every grant invalid.

    Returns:
        The claims, and the digest of the roster.

    Raises:
        BusError: the table of grants cannot be read.
        ConflictError: other gatekeepers kept changing the table.
    """
    stage = stage_of(run)
    wanted = grantable(run, stage) if stage is not None else ()
    records = await grants.listed() if wanted else ()
    if not records:
        return (), ""
    try:
        roster, sha256 = context.policies.people.roster()
    except ConfigurationError:
        return (), ""
    paths = await changed_paths(run, context.artifacts)
    claims = []
    for each in wanted:
        claim = await _claim(context, run, each, grants, records, roster, paths)
        if claim is not None:
            claims.append(claim)
            words = (
                f"{claim.judged.grant.grant_id} of {claim.judged.person.name} with {claim.judged.fingerprint}, use {claim.use}"
            )
            context.report.checked(decided_rule(each.rule.name), words)
    if claims:
        context.report.saw(ROSTER, sha256)
    if claims and run.candidate is not None:
        context.report.saw(CANDIDATE_TREE, run.candidate.tree)
    return tuple(claims), sha256


async def _claim(
    context: GateContext,
    run: Run,
    asked: MatchedRule,
    grants: StandingGrants,
    records: tuple[GrantRecord, ...],
    roster: ApproverRoster,
    paths: tuple[bytes, ...],
) -> GrantClaim | None:
    for record in records:
        try:
            judged = judge_grant(record.signed, roster, context.now)
        except GatewrightError:
            continue  # its key has left the roster or is not valid now
        if record.revocation is not None or why_uncovered(run, asked.rule, judged, paths, context.now):
            continue
        use = await grants.claim(judged.grant.grant_id, run.run_id, subject_of(run, asked.rule), context.now)
        if use:
            return GrantClaim(asked.rule.name, judged, use)
    return None
