"""What a person is asked and has decided, and the operator's two files about it: the rules that ask, and who may answer.

A request names exactly what is decided (contract, candidate tree) and is fixed by the sha256 of its canonical JSON; a decision
repeats all of that, and its own bytes are what the person signs with an SSH key or a passkey.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.activity import AgentQuestion
from gatewright.contracts.consultation import Blocked
from gatewright.contracts.people.identities import identities_of
from gatewright.contracts.people.review_votes import ReviewQuorum, ReviewStanding, ReviewVote
from gatewright.contracts.reports import GateName
from gatewright.contracts.run_status import GateStanding, MovedTarget
from gatewright.contracts.transfers import AskedTransfer
from gatewright.contracts.vocabulary import (
    END,
    Attempt,
    Count,
    Document,
    NonEmpty,
    PathPattern,
    RunId,
    Sha256,
    Timestamp,
    keep_one_spelling,
)

#: What may make a run wait for a person. ``escalation`` is about one more round; what is not about candidates is about the
#: contract. For ``blocked`` and ``agent_question`` no run waits.
AskReason = Literal[
    "broad_scope",
    "network",
    "agent",
    "budget",
    "command",
    "transfer",
    "destructive",
    "protected_class",
    "landing",
    "risk_tier",
    "critic",
    "review",
    "escalation",
    "blocked",
    "agent_question",
]
_ABOUT_CANDIDATES = frozenset({"protected_class", "landing", "risk_tier", "critic", "review"})
AskStage = Literal["contract", "candidate", "round", "beside"]
Risk = Literal["low", "medium", "high"]
DecisionVerdict = Literal["approve", "reject", "comment", "vote", "delegate"]
#: What leaves a request waiting as it was.
LEFT_OPEN: frozenset[DecisionVerdict] = frozenset({"comment", "delegate"})
ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "withdrawn", "autopilot", "granted", "lapsed"]
OnReject = Literal["end", "repair"]
ProtectedClassName = Literal["ci", "protected", "runner", "dependencies", "migrations"]
CommandClassName = Literal["read-only", "local-write", "network", "dependency-install", "destructive", "credential-sensitive"]

#: Classes of protected paths that a grant may name; tests, the pipeline and the runner are asked about each time.
GrantableClass = Literal["dependencies", "migrations"]
GrantStatus = Literal["standing", "used_up", "expired", "revoked"]

#: Seconds in ninety days: the longest that a person is waited for.
LONGEST_WAIT = 90 * 86_400
#: Seconds of a beat where the operator's policy says nothing else.
DEFAULT_BEAT = 900
RuleName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,63}}{END}")]
PersonName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._@+-]{{0,127}}{END}")]
RequestId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]*\.ask\.[0-9]{{1,4}}{END}")]
Wait = Annotated[int, Meta(ge=1, le=LONGEST_WAIT)]
GrantId = Annotated[str, Meta(pattern=rf"^grant-[0-9a-f]{{16}}{END}")]
#: Runs that one grant may let pass at most.
GrantUses = Annotated[int, Meta(ge=1, le=100)]
#: Of a web page: TLS, or this host itself.
Origin = Annotated[str, Meta(pattern=rf"^(https://[a-z0-9.-]+|http://localhost)(:[0-9]{{1,5}})?{END}", max_length=260)]
_Words = Annotated[str, Meta(max_length=4000)]
_Line = Annotated[str, Meta(max_length=200)]
#: The bytes of a decision, and of the armour around a signature, as text.
_Signed = Annotated[str, Meta(min_length=1, max_length=32_768)]


class GrantBounds(Document):
    """How much one grant about a rule may be: seconds from its making to its end, and runs that it lets pass."""

    within_seconds: Annotated[int, Meta(ge=1, le=30 * 86_400)]
    uses: GrantUses


class ApprovalRule(Document):
    """One reason to ask a person. ``approvers`` are people of the roster, or ``@group``.

    ``repositories``, ``refs`` and ``classes`` narrow it down; empty: all. ``commands``: classes of commands that a ``command``
    asks about; empty: all but ``read-only`` and ``local-write``. ``above_usd``: what a ``budget`` may order
    unasked. ``from_tier``: the lowest tier of a change that a ``risk_tier`` asks about. ``quorum``: what a ``review`` needs
    to pass. ``within_seconds`` is how long an answer is waited for; ``within_beats`` says it in beats, which are made seconds
    when the policy is read: ledgers have those, and a beat that is changed later changes no run. ``escalate_to``: who is
    asked next, for as long again, when no answer came; empty: silence ends the run. ``grants``: how much may be approved in
    advance, for a pattern and a time; None: nothing.
    ``on_reject``: whether a refusal with words ends the run, or sends the change back to who made it while rounds are left.
    """

    name: RuleName
    reason: AskReason
    risk: Risk
    approvers: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    within_seconds: Wait | None = None
    within_beats: Annotated[int, Meta(ge=1, le=LONGEST_WAIT)] | None = None
    repositories: tuple[NonEmpty, ...] = ()
    refs: tuple[NonEmpty, ...] = ()
    classes: tuple[ProtectedClassName, ...] = ()
    commands: tuple[CommandClassName, ...] = ()
    above_usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    from_tier: Risk = "high"
    yourself: bool = False
    phrase: _Line = ""
    batch: bool = False
    escalate_to: tuple[NonEmpty, ...] = ()
    release_locks: bool = False
    autopilot: bool = False
    quorum: ReviewQuorum | None = None
    grants: GrantBounds | None = None
    on_reject: OnReject = "end"

    def __post_init__(self) -> None:
        keep_one_spelling(self, "above_usd", "from_tier", "on_reject")

    @property
    def wait(self) -> int:
        """Seconds that an answer is waited for; beats that no policy has measured are quarters of an hour."""
        return self.within_seconds or (self.within_beats or 1) * DEFAULT_BEAT

    @property
    def stage(self) -> AskStage:
        """When it is asked: before any work is given out, before the change lands, before one more round of fixing, or
        beside the work, which goes on."""
        if self.reason in {"blocked", "agent_question"}:
            return "beside"
        if self.reason == "escalation":
            return "round"
        return "candidate" if self.reason in _ABOUT_CANDIDATES else "contract"


class ApprovalRules(Document):
    """The policy file ``approval_rules.json``."""

    version: Literal["1"]
    rules: tuple[ApprovalRule, ...]


class RosterKey(Document):
    """A public key in the form of OpenSSH. Outside its times, and from ``revoked_at`` on, nothing signed with it counts.

    ``origins``: the key is a passkey, and these are the pages on which it may sign.
    """

    key: Annotated[str, Meta(min_length=20, max_length=4096)]
    valid_from: str | None = None
    valid_until: str | None = None
    revoked_at: str | None = None
    origins: Annotated[tuple[Origin, ...], Meta(max_length=8)] = ()


class RosterPerson(Document):
    """A person. ``publishers`` and ``accounts`` say whose runs are this person's own."""

    name: PersonName
    keys: Annotated[tuple[RosterKey, ...], Meta(min_length=1)]
    groups: tuple[RuleName, ...] = ()
    publishers: tuple[NonEmpty, ...] = ()
    accounts: tuple[NonEmpty, ...] = ()

    @property
    def identities(self) -> frozenset[str]:
        """Name and accounts in their canonical form."""
        return identities_of(self.name, *self.accounts)


class ApproverRoster(Document):
    """The policy file ``approvers.json``: who may decide, and with which keys."""

    version: Literal["1"]
    people: tuple[RosterPerson, ...]


class ApprovalRequest(Document):
    """What a person is asked. ``candidate_tree`` and ``patch`` are empty before there is a candidate.

    ``blocked``: what a task could not tell; the run goes on beside such a request, whose stage is ``beside``.
    ``question``: what an agent asks leave for, beside the run as well. ``transfers``: what would go to providers of models.
    """

    request_id: RequestId
    run_id: RunId
    stage: AskStage
    rule: RuleName
    reason: AskReason
    why: _Words
    risk: Risk
    approvers: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    repository: str
    baseline_commit: str
    contract_sha256: Sha256
    attempt: Attempt
    publisher: NonEmpty
    requested_by: str
    user_request: _Words
    on_yes: NonEmpty
    on_no: NonEmpty
    on_silence: NonEmpty
    created_at: Timestamp
    expires_at: Timestamp
    candidate_tree: str = ""
    patch: str = ""
    yourself: bool = False
    phrase: _Line = ""
    batch: bool = False
    escalates_from: str | None = None
    blocked: Blocked | None = None
    question: AgentQuestion | None = None
    transfers: Annotated[tuple[AskedTransfer, ...], Meta(max_length=2)] = ()


class ApprovalDecision(Document):
    """What a person says of one request; its canonical JSON is what is signed. ``delegate_to``: who is asked in their place."""

    request_id: RequestId
    run_id: RunId
    request_sha256: Sha256
    contract_sha256: Sha256
    candidate_tree: str
    expires_at: Timestamp
    verdict: DecisionVerdict
    person: PersonName
    decided_at: Timestamp
    comment: _Words = ""
    phrase: _Line = ""
    vote: ReviewVote | None = None
    delegate_to: PersonName | None = None


class SignedDecision(Document):
    """``document`` is the decision's canonical JSON as text, ``signature`` an armoured SSH signature over these bytes."""

    document: _Signed
    signature: _Signed


class DecisionBatch(Document):
    """Decisions that count together or not at all."""

    decisions: Annotated[tuple[SignedDecision, ...], Meta(min_length=1, max_length=200)]


class RecordedDecision(Document):
    """What the ledger has now. ``state`` is where the run stands."""

    request_id: RequestId
    run_id: RunId
    verdict: DecisionVerdict
    person: PersonName
    state: NonEmpty


class DecisionReply(Document):
    """The answer to a batch of which all were recorded."""

    recorded: tuple[RecordedDecision, ...]


class ApprovalGrant(Document):
    """What a person approves in advance; its canonical JSON is what is signed.

    It is about runs on exactly this ``repository`` that ``rule`` asks about, as long as each changed file is of ``paths``,
    protected files are of ``classes`` alone, and the risk is no higher than said; for ``max_uses`` runs, before ``not_after``.
    With ``versions`` a change moves versions and does nothing else, each by so much at most.
    """

    grant_id: GrantId
    repository: NonEmpty
    rule: RuleName
    reason: AskReason
    risk_at_most: Literal["low", "medium"]
    paths: Annotated[tuple[PathPattern, ...], Meta(min_length=1, max_length=100)]
    person: PersonName
    made_at: Timestamp
    not_after: Timestamp
    max_uses: GrantUses
    classes: tuple[GrantableClass, ...] = ()
    versions: Literal["patch", "minor"] | None = None
    comment: _Words = ""


class GrantRevocation(Document):
    """The end of a grant before its time; its canonical JSON is what is signed."""

    grant_id: GrantId
    grant_sha256: Sha256
    person: PersonName
    revoked_at: Timestamp
    comment: _Words = ""


class GrantChange(Document):
    """A signed grant, or a signed revocation of one."""

    kind: Literal["grant", "revocation"]
    signed: SignedDecision


class GrantUse(Document):
    """A run that a grant let pass. ``subject`` is the tree of its candidate; the digest of its contract before there is one."""

    run_id: RunId
    subject: NonEmpty
    at: Timestamp


class GrantStanding(Document):
    """A grant and what has become of it, with both signatures; ``fingerprint`` is that of the grant's key."""

    grant: ApprovalGrant
    grant_sha256: Sha256
    signed: SignedDecision
    fingerprint: NonEmpty
    status: GrantStatus
    recorded_at: Timestamp
    uses: tuple[GrantUse, ...] = ()
    revocation: SignedDecision | None = None
    revoked_by: str = ""
    revoked_at: str = ""


class ApprovalsRequest(Document):
    """Which requests are asked for. ``details``: with gates and patch, of one run. ``grants``: not requests, but all grants."""

    run_id: RunId | None = None
    pending_only: bool = False
    details: bool = False
    grants: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class Delegation(Document):
    """A request that ``person`` has handed to ``to``, by the clock of the gatekeeper."""

    person: PersonName
    to: PersonName
    at: str


class GateSummary(Document):
    """The last verdict of a gate on what is decided; ``code`` is ``ok`` or the reason."""

    gate: GateName
    verdict: Literal["PASS", "FAIL"]
    code: NonEmpty


class QuotedWords(Document):
    """Words of a role or an agent; ``speaker`` names it, and ``about`` what the words are."""

    speaker: _Line
    about: NonEmpty
    text: _Words


class PersonsComment(Document):
    """What a person wrote with an answer to a request; ``at`` is when the gatekeeper recorded it."""

    person: NonEmpty
    verdict: DecisionVerdict
    at: str
    text: _Words


class ApprovalSummary(Document):
    """What a person decides, in brief. The ledger is the only source, of all but ``moved``.

    ``moved``: the target, where that has moved since the run began, so that a yes lands nothing.
    ``title`` has the words of the order, ``quoted`` those of roles and agents, and ``comments`` those of people; no other
    field holds any.
    ``ordered_by`` names people; empty: it is not known who. ``requested_by`` is a claim of the publisher. ``lands_on`` is empty
    where nothing lands. ``changed_files`` is None while there is no change, ``changed_lines`` also where they were not counted.
    """

    title: Annotated[str, Meta(max_length=200)]
    ordered_by: tuple[NonEmpty, ...]
    publisher: NonEmpty
    requested_by: str
    repository: str
    lands_on: str
    why: _Words
    on_silence: NonEmpty
    gates: tuple[GateSummary, ...]
    changed_files: Count | None = None
    changed_lines: Count | None = None
    quoted: tuple[QuotedWords, ...] = ()
    comments: tuple[PersonsComment, ...] = ()
    moved: MovedTarget | None = None


class ApprovalStanding(Document):
    """A request and what has become of it. ``patch`` is the candidate's, as far as it fits.

    ``summary`` is None in answers of an older gatekeeper.
    """

    request: ApprovalRequest
    request_sha256: Sha256
    status: ApprovalStatus
    decided_by: str = ""
    decided_at: str = ""
    comments: tuple[str, ...] = ()
    gates: tuple[GateStanding, ...] = ()
    patch: str = ""
    patch_bytes: Count = 0
    review: ReviewStanding | None = None
    delegations: tuple[Delegation, ...] = ()
    summary: ApprovalSummary | None = None


class ApprovalList(Document):
    """The oldest request first; ``more``: there are further ones.

    ``draft``: of the one run that was asked about, the review that will be asked for once its change is made.
    """

    approvals: tuple[ApprovalStanding, ...]
    more: bool
    draft: ReviewStanding | None = None
    grants: tuple[GrantStanding, ...] = ()
