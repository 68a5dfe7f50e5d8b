"""Reviews by quorum: validity of a vote, outcome of the votes, and status of a review. Pure.

The decider settles a review by these rules, the gatekeeper accepts votes by them, and ``verify`` checks both again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date

from gatewright.contracts import ApprovalDecision, ApprovalRequest, ReviewReport
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import person_key, same_person
from gatewright.contracts.people.review_votes import ReviewPhase, ReviewQuorum, ReviewStanding, ReviewVote, VoteStanding
from gatewright.errors import DeniedError
from gatewright.git.patches.lines import shown_lines
from gatewright.rules.broken import Broken
from gatewright.rules.people.signing_times import require_time
from gatewright.rules.quorum import MODEL_VOTER, ROLE_VOTER, Ballot, QuorumOutcome, Seats, ballot_of, outcome_of, seats_of
from gatewright.rules.rounds import sends_back
from gatewright.run.state import AskedApproval, CastVote, Run, RunTask

REVIEW = "review"
#: Prefix of the reason by which the gate names a line of the owners file.
OWNED = "owners:"
#: Code of a model's finding in a change.
MODEL_FINDING = "model_finding"
#: Maximum number of stored votes per request.
MOST_VOTES = 100


def quorum_of(run: Run, request: ApprovalRequest) -> ReviewQuorum | None:
    """Return the quorum that the rule requires; None when it requires no review."""
    rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
    return rule.quorum if rule is not None and request.reason == REVIEW else None


def check_vote(run: Run, request: ApprovalRequest, decision: ApprovalDecision, person: RosterPerson) -> None:
    """Check that a decision fits the request and may be made now.

    1. Votes are for reviews only, and reviews take only votes and comments.
    2. A yellow vote has a mitigation with a future date.
    3. It is later than the person's previous vote, so that an earlier vote cannot be replayed.

    Raises:
        DeniedError: has the code of the broken rule.
    """
    vote = decision.vote
    if (request.reason == REVIEW) != (decision.verdict == "vote") and decision.verdict != "comment":  # 1
        raise DeniedError(f"{request.reason}: {decision.verdict} is no answer to that", code="vote_misplaced")
    if (vote is None) == (decision.verdict == "vote"):
        raise DeniedError(f"{decision.verdict} {'without' if vote is None else 'with'} a vote", code="vote_misplaced")
    if vote is None:
        return
    if vote.colour == "yellow" and not vote.mitigations:  # 2
        raise DeniedError("a yellow vote names what is done about it, by whom, and until when", code="vote_without_mitigation")
    voted_at = require_time(decision.decided_at, "vote_not_later")
    for each in vote.mitigations:
        if _day(each.due) < voted_at.astimezone(UTC).date():
            raise DeniedError(f"{each.due} is no day to come", code="vote_without_mitigation")
    cast = run.approvals[request.request_id].votes
    if len(cast) >= MOST_VOTES:
        raise DeniedError(f"{MOST_VOTES} votes are kept, not more", code="too_many_comments")
    for before in _chain(run, request.request_id):  # 3
        for earlier in before.votes:
            if same_person(earlier.person.name, person.name) and voted_at <= require_time(earlier.decided_at, "vote_not_later"):
                words = f"{person.name} voted {earlier.vote.colour} at {earlier.decided_at}: a new vote must be later"
                raise DeniedError(words, code="vote_not_later")


def check_anchors(run: Run, vote: ReviewVote, patch: bytes) -> None:
    """Check that each anchor exists in the run: a line of the judged patch, a command of the tests, a document.

    Raises:
        DeniedError: an anchor refers to nothing (``anchor_unresolved``).
    """
    lines = shown_lines(patch)
    commands = run.tests.commands if run.tests is not None else ()
    documents = {"contract": run.contract, "plan": run.plan, "review": run.review, "tests": run.tests}
    for anchor in vote.evidence:
        kind, _, rest = anchor.partition(":")
        path, _, number = rest.rpartition(":")
        resolved = (
            int(number) in lines.get(path, frozenset())
            if kind == "patch"
            else int(rest) <= len(commands)
            if kind == "tests"
            else documents.get(rest) is not None
        )
        if not resolved:
            raise DeniedError(f"{anchor} is nothing that the run holds", code="anchor_unresolved")


def outcome(run: Run, request: ApprovalRequest, one_more: CastVote | None = None) -> QuorumOutcome | None:
    """Return the outcome of the votes, including ``one_more`` that is about to be recorded; None without a review."""
    quorum = quorum_of(run, request)
    if quorum is None:
        return None
    seats = seats_of(quorum, owned_lines(run))
    ballots = tuple(_ballots(run, request, quorum, seats, one_more))
    return outcome_of(quorum, seats, ballots, sends_back=sends_back(run, request))


def owned_lines(run: Run) -> tuple[int, ...]:
    """Return the lines of the owners file that cover the candidate, as the gate recorded; 0 for none."""
    return tuple(int(found.reason.removeprefix(OWNED)) for found in run.reasons_found_now() if found.reason.startswith(OWNED))


def standing(run: Run, asked: AskedApproval) -> ReviewStanding | None:
    """Return the status of a requested review; None when the request is no review."""
    found = outcome(run, asked.request)
    quorum = quorum_of(run, asked.request)
    if found is None or quorum is None:
        return None
    at = run.review.reviewed_at if run.review is not None else ""
    votes = [VoteStanding(voter=each.voter, colour="green", at=at) for each in _of_machines(run, asked.request, quorum)]
    votes += [
        VoteStanding(voter=each.person.name, colour=each.vote.colour, at=each.at, vote=each.vote)
        for each, _ in latest_votes(run, asked.request).values()
    ]
    return ReviewStanding(
        phase=_phase(run, asked),
        votes=tuple(votes),
        blockers=() if asked.status == "approved" else found.blockers,
        consensus=asked.consensus,
    )


def _phase(run: Run, asked: AskedApproval) -> ReviewPhase:
    if asked.status in {"rejected", "withdrawn", "lapsed"}:
        return "REJECTED"  # the change was sent back, or votes lapsed; another request replaces this one
    if run.ended:
        return "MERGED" if run.status == "SUCCESS" else "REJECTED"
    if asked.status == "approved":
        return "CONSENSUS" if run.parked else "SUBMITTED"
    return "REVIEW"


def _ballots(
    run: Run, request: ApprovalRequest, quorum: ReviewQuorum, seats: Seats, one_more: CastVote | None
) -> Iterator[Ballot]:
    yield from _of_machines(run, request, quorum)
    latest = latest_votes(run, request)
    if one_more is not None:
        latest[person_key(one_more.person.name)] = (one_more, request.escalates_from is not None)
    for cast, late in latest.values():
        yield ballot_of(quorum, seats, cast.person, cast.vote.colour, late=late)


def _of_machines(run: Run, request: ApprovalRequest, quorum: ReviewQuorum) -> Iterator[Ballot]:
    """Yield the reviewer's report as votes. It passed, or the run would not be at this point.

    1. The role's own vote.
    2. The vote of the model that it asked, if that found nothing and did not make the change.
    """
    report = run.review
    if report is None or report.verdict != "PASS" or request.attempt != run.attempt:
        return
    if quorum.role_counts:  # 1
        yield Ballot(ROLE_VOTER, "green", quality=True)
    asked = report.consultation
    if not quorum.model_counts or asked is None or any(each.code == MODEL_FINDING for each in report.findings):
        return
    if _made_by_others(run, asked.model):  # 2
        yield Ballot(MODEL_VOTER + asked.model, "green")


def _made_by_others(run: Run, model: str) -> bool:
    """Return whether the contract does not name ``model`` as a maker; policies keep the routes of both apart."""
    contract = run.contract
    makers = (contract.candidates or (contract.executor,)) if contract is not None else ()
    return bool(makers) and all(each is None or each.model != model for each in makers)


def latest_votes(run: Run, request: ApprovalRequest) -> dict[str, tuple[CastVote, bool]]:
    """Return the last vote of each person (by canonical name), and whether it came after the first deadline."""
    found: dict[str, tuple[CastVote, bool]] = {}
    for asked in _chain(run, request.request_id):
        for cast in asked.votes:
            found[person_key(cast.person.name)] = (cast, asked.request.escalates_from is not None)
    return found


def _chain(run: Run, request_id: str) -> tuple[AskedApproval, ...]:
    """Return the request preceded by the one that it replaces, about the same contract and tree."""
    asked = run.approvals.get(request_id)
    if asked is None:
        return ()
    before = run.approvals.get(asked.request.escalates_from or "")
    same = before is not None and (before.request.contract_sha256, before.request.candidate_tree) == (
        asked.request.contract_sha256,
        asked.request.candidate_tree,
    )
    return (before, asked) if before is not None and same else (asked,)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise DeniedError(f"{text} is no day", code="vote_without_mitigation") from None


#: Codes of the rules here and of the tree's; the gate uses others too.
CODES = frozenset({"reviewer_wrong_tree", "reviewer_not_independent"})


def not_independent(report: ReviewReport, makers: Iterable[RunTask]) -> Iterator[Broken]:
    """Yield faults of independence: another role, or a reviewer that worked on any candidate.

    ``makers`` are the run's worker tasks, of every candidate and round.
    """
    tasks = tuple(makers)
    implementers = {task.result.producer.agent_id for task in tasks if task.result is not None}
    implementers |= {task.contract.assigned_agent.agent_id for task in tasks if task.contract is not None}
    if report.reviewer.role != "REVIEWER" or report.reviewer.agent_id in implementers:
        yield Broken("reviewer_not_independent", "reviewer_gate", f"{report.reviewer.agent_id} may not review this")


def not_passed(report: ReviewReport) -> Iterator[Broken]:
    """Yield every blocking finding; or the verdict, if it is negative without one."""
    blocking = [finding for finding in report.findings if finding.blocking]
    for finding in blocking:
        yield Broken("review_failed", finding.code, finding.message, finding.path.encode() if finding.path else None)
    if not blocking and (report.verdict != "PASS" or not report.scope_check.passed):
        yield Broken("review_failed", "reviewer_gate", f"{report.verdict}: {report.summary}")
