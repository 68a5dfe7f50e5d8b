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
    "path_class",
    "proof",
    "landing",
    "risk_tier",
    "critic",
    "review",
    "escalation",
    "blocked",
    "agent_question",
]
_ABOUT_CANDIDATES = frozenset({"protected_class", "path_class", "proof", "landing", "risk_tier", "critic", "review"})
AskStage = Literal["contract", "candidate", "round", "beside", "environment"]
Risk = Literal["low", "medium", "high"]
DecisionVerdict = Literal["approve", "reject", "comment", "vote", "delegate"]
#: What leaves a request waiting as it was.
LEFT_OPEN: frozenset[DecisionVerdict] = frozenset({"comment", "delegate"})
ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "withdrawn", "autopilot", "granted", "lapsed"]
OnReject = Literal["end", "repair"]
#: What evidence that passed may leave in doubt.
TriggerCode = Literal[
    "findings_left", "mutants_survived", "passed_second_time", "proof_missing", "rounds_refused", "unconfined_tests"
]
ProtectedClassName = Literal["ci", "protected", "runner", "dependencies", "migrations"]
CommandClassName = Literal["read-only", "local-write", "network", "dependency-install", "destructive", "credential-sensitive"]

#: Classes of protected paths that a grant may name; tests, the pipeline and the runner are asked about each time.
GrantableClass = Literal["dependencies", "migrations"]
GrantStatus = Literal["standing", "used_up", "expired", "revoked"]

#: Seconds in ninety days: the longest that a person is waited for.
LONGEST_WAIT = 90 * 86_400
#: Default seconds of a beat.
DEFAULT_BEAT = 900
RuleName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,63}}{END}")]
PersonName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._@+-]{{0,127}}{END}")]
RequestId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]*\.ask\.[0-9]{{1,4}}{END}")]
Wait = Annotated[int, Meta(ge=1, le=LONGEST_WAIT)]
GrantId = Annotated[str, Meta(pattern=rf"^grant-[0-9a-f]{{16}}{END}")]
#: Runs that one grant may let pass at most.
GrantUses = Annotated[int, Meta(ge=1, le=100)]
#: People who must approve at most.
Approvals = Annotated[int, Meta(ge=1, le=10)]
#: Of a web page: TLS, or this host itself.
Origin = Annotated[str, Meta(pattern=rf"^(https://[a-z0-9.-]+|http://localhost)(:[0-9]{{1,5}})?{END}", max_length=260)]
_Words = Annotated[str, Meta(max_length=4000)]
_Line = Annotated[str, Meta(max_length=200)]
#: The bytes of a decision, and of the armour around a signature, as text.
_Signed = Annotated[str, Meta(min_length=1, max_length=32_768)]


class GrantBounds(Document):
    """The limits of one grant about a rule."""

    within_seconds: Annotated[int, Meta(ge=1, le=30 * 86_400)]
    """Seconds from the creation of a grant to its end."""
    uses: GrantUses
    """Number of runs that one grant may let pass."""


class AnswerLimits(Document, kw_only=True):
    """What the answer to a question of the gatekeeper may take, outside the budget of the run."""

    timeout_sec: Annotated[int, Meta(ge=1, le=600)] = 120
    """Seconds for the answer."""
    tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 200_000
    """Tokens that the answer may cost."""
    cost_usd: Annotated[float, Meta(gt=0, le=1000)] | None = None
    """US dollars that the answer may cost."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd")


class ModelCritic(AnswerLimits, kw_only=True):
    """A model that the reviewer role asks about doubts before the rule asks people.

    ``proceed`` answers only this rule. Anything else, or no answer, leaves the rule to its people; ``block`` ends the run.
    """

    on: Annotated[tuple[TriggerCode, ...], Meta(min_length=1)]
    """Doubts that the model may answer. Any other doubt always asks people."""


class ApprovalRule(Document):
    """One reason to ask a person, who is asked, and for how long. ``repositories``, ``refs`` and ``classes`` narrow it.

    The gatekeeper converts ``within_beats`` to seconds when it reads the policy. Ledgers record seconds, so a beat that is
    changed later changes no run.
    """

    name: RuleName
    """Name by which other documents refer to it."""
    reason: AskReason
    """What makes a run wait for a person. No run waits for blocked and agent_question."""
    risk: Risk
    """How much is at stake. A request of high risk is decided alone."""
    approvers: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Who may decide: people of the roster, or @group."""
    within_seconds: Wait | None = None
    """Seconds to wait for an answer; this, or within_beats."""
    within_beats: Annotated[int, Meta(ge=1, le=LONGEST_WAIT)] | None = None
    """The same in beats, whose length is set in beats.json; within_seconds is then left out."""
    repositories: tuple[NonEmpty, ...] = ()
    """Addresses or paths of repositories that the rule is about; empty: all."""
    refs: tuple[NonEmpty, ...] = ()
    """For landing: full names of refs, or prefixes of refs that end in /*; empty: all."""
    classes: tuple[ProtectedClassName, ...] = ()
    """For protected_class: the classes of protected paths; empty: all."""
    paths: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=500)], ...], Meta(max_length=200)] = ()
    """For path_class: gitignore patterns of the paths in the class, whose name is that of the rule."""
    commands: tuple[CommandClassName, ...] = ()
    """For command: the classes of commands; empty: all but read-only and local-write."""
    above_usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    """For budget: what models may cost, in US dollars, before a person is asked."""
    from_tier: Risk = "high"
    """For risk_tier: the lowest tier of a change that a person is asked about."""
    approvals: Approvals = 1
    """Number of different people who must approve."""
    yourself: bool = False
    """Whether people may approve their own runs."""
    phrase: _Line = ""
    """The exact phrase that an approval must contain; empty: none."""
    batch: bool = False
    """Whether it may be decided together with other requests."""
    escalate_to: tuple[NonEmpty, ...] = ()
    """Who is asked next, for as long again, if no answer came in time; empty: the run ends."""
    release_locks: bool = False
    """Whether the run releases its path locks while it waits."""
    autopilot: bool = False
    """Whether the rule approves by itself. The ledger records such an approval as automatic."""
    quorum: ReviewQuorum | None = None
    """For review: what a review needs to pass."""
    grants: GrantBounds | None = None
    """The limits of approvals in advance, for a pattern and a time; null: none are possible."""
    on_reject: OnReject = "end"
    """Whether a rejection with a comment ends the run, or sends the change back for repair while rounds are left."""
    model_first: ModelCritic | None = None
    """For critic: the model that is asked before people; null: people are asked at once."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "above_usd", "from_tier", "on_reject")

    @property
    def opens_ci(self) -> bool:
        """Whether the rule permits changes of CI files after approval: it names the class. An empty ``classes`` names none.

        Without such a rule the class is refused. A rule about all classes covers CI files that another rule permits.
        """
        return self.reason == "protected_class" and "ci" in self.classes

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
    """The policy file ``approval_rules.json``: for which reasons a person is asked, who, and for how long."""

    version: Literal["1"]
    """Version of the file format."""
    rules: tuple[ApprovalRule, ...]
    """The rules."""


class RosterKey(Document):
    """A public key in the form of OpenSSH. Nothing signed with it counts outside its validity, or from ``revoked_at`` on."""

    key: Annotated[str, Meta(min_length=20, max_length=4096)]
    """A public key in one line, as OpenSSH writes it."""
    valid_from: str | None = None
    """The key does not count before this time."""
    valid_until: str | None = None
    """The key does not count from this time on."""
    revoked_at: str | None = None
    """From this time on nothing signed with the key counts."""
    origins: Annotated[tuple[Origin, ...], Meta(max_length=8)] = ()
    """The origins of the pages on which the key, a passkey, may sign, as browsers write them. Empty: the key is not a
    passkey."""


class RosterPerson(Document):
    """A person of the roster. ``publishers`` and ``accounts`` decide which runs are this person's own."""

    name: PersonName
    """Name by which other documents refer to it."""
    keys: Annotated[tuple[RosterKey, ...], Meta(min_length=1)]
    """The person's keys."""
    groups: tuple[RuleName, ...] = ()
    """Groups that the person is in."""
    publishers: tuple[NonEmpty, ...] = ()
    """Publishers whose runs are the person's own."""
    accounts: tuple[NonEmpty, ...] = ()
    """Names and addresses that the person uses to order runs and to write changes."""

    @property
    def identities(self) -> frozenset[str]:
        """Name and accounts in their canonical form."""
        return identities_of(self.name, *self.accounts)


class ApproverRoster(Document):
    """The policy file ``approvers.json``: who may decide, and with which keys."""

    version: Literal["1"]
    """Version of the file format."""
    people: tuple[RosterPerson, ...]
    """People who may decide."""


class ApprovalRequest(Document):
    """What a person is asked about a run that waits for the answer.

    A run does not wait for a request whose stage is ``beside``.
    """

    request_id: RequestId
    """Id of the request: run id, ".ask." and a number."""
    run_id: RunId
    stage: AskStage
    """What is decided: the contract, the candidate, one more round or the packages of its tests; beside: no run waits."""
    rule: RuleName
    """The rule that asks."""
    reason: AskReason
    """What makes a run wait for a person. No run waits for blocked and agent_question."""
    why: _Words
    """What was found that makes the rule ask."""
    risk: Risk
    """How much is at stake. A request of high risk is decided alone."""
    approvers: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Who may decide: people of the roster, or @group."""
    repository: str
    """Address of the repository."""
    baseline_commit: str
    """The commit that the change is made on."""
    contract_sha256: Sha256
    """SHA-256 of the canonical JSON of the run's contract."""
    attempt: Attempt
    publisher: NonEmpty
    """The identity that submitted the run, as the bus knew it."""
    requested_by: str
    """Who ordered the run, as the order names them. A claim."""
    user_request: _Words
    """The words that ordered the run."""
    on_yes: NonEmpty
    """What an approval leads to."""
    on_no: NonEmpty
    """What a rejection leads to."""
    on_silence: NonEmpty
    """What happens if no answer comes in time."""
    created_at: Timestamp
    """When the request was made."""
    expires_at: Timestamp
    """Until when answers count."""
    candidate_tree: str = ""
    """Id of the tree that is decided; empty before there is a candidate."""
    patch: str = ""
    """The patch: its artifact URI in a request, its text in a list."""
    approvals: Approvals = 1
    """Number of different people who must approve."""
    yourself: bool = False
    """Whether people may approve their own runs."""
    phrase: _Line = ""
    """The exact phrase that an approval must contain; empty: none."""
    batch: bool = False
    """Whether it may be decided together with other requests."""
    escalates_from: str | None = None
    """The unanswered request that this one replaces."""
    blocked: Blocked | None = None
    """What a task could not answer; the run continues beside the request."""
    question: AgentQuestion | None = None
    """What an agent asks permission for; the run continues beside the request."""
    transfers: Annotated[tuple[AskedTransfer, ...], Meta(max_length=2)] = ()
    """What would be sent to providers of models, for each role. This request approves it."""
    order_sha256: Sha256 | None = None
    """SHA-256 of the order of environments that would be sent to the puller. An approval is valid for exactly this order."""


class ApprovalDecision(Document):
    """What a person decides about one request. Its canonical JSON is what the person signs."""

    request_id: RequestId
    """Id of the request: run id, ".ask." and a number."""
    run_id: RunId
    request_sha256: Sha256
    """SHA-256 of the canonical JSON of the request."""
    contract_sha256: Sha256
    """SHA-256 of the canonical JSON of the run's contract."""
    candidate_tree: str
    """Id of the tree that is decided; empty before there is a candidate."""
    expires_at: Timestamp
    """Until when answers count."""
    verdict: DecisionVerdict
    """The decision. A comment decides nothing, a vote is one of several, a delegation passes the request to another person."""
    person: PersonName
    """The person who decides, by their name in the roster."""
    decided_at: Timestamp
    """When the person decided, by their own clock."""
    comment: _Words = ""
    """A comment for the record."""
    phrase: _Line = ""
    """The exact phrase that an approval must contain; empty: none."""
    vote: ReviewVote | None = None
    """The vote on a review."""
    delegate_to: PersonName | None = None
    """For a delegation: who is asked instead of the person."""


class SignedDecision(Document):
    """A document that a person signed, with the signature."""

    document: _Signed
    """The canonical JSON that was signed, as text."""
    signature: _Signed
    """Armoured SSH signature over the bytes of the document."""


class DecisionBatch(Document):
    """Signed decisions, sent to the gatekeeper together. All of them count, or none."""

    decisions: Annotated[tuple[SignedDecision, ...], Meta(min_length=1, max_length=200)]
    """The decisions. All of them count, or none."""


class RecordedDecision(Document):
    """A decision as the ledger records it."""

    request_id: RequestId
    """Id of the request: run id, ".ask." and a number."""
    run_id: RunId
    verdict: DecisionVerdict
    """The decision. A comment decides nothing, a vote is one of several, a delegation passes the request to another person."""
    person: PersonName
    """The person who decides, by their name in the roster."""
    state: NonEmpty
    """The current state of the run."""


class DecisionReply(Document):
    """What the gatekeeper has recorded of a ``decision_batch.v1``, once all of it is recorded."""

    recorded: tuple[RecordedDecision, ...]
    """The recorded decisions."""


class ApprovalGrant(Document):
    """What a person approves in advance, for a pattern and a time. Its canonical JSON is what the person signs.

    It covers runs on exactly this ``repository`` that ``rule`` asks about, if each changed file matches ``paths``, protected
    files belong to ``classes`` alone, and the risk is at most ``risk_at_most``.
    """

    grant_id: GrantId
    """Id of the grant."""
    repository: NonEmpty
    """Address of the repository, exactly as runs name it."""
    rule: RuleName
    """The rule that asks."""
    reason: AskReason
    """The reason of that rule."""
    risk_at_most: Literal["low", "medium"]
    """The highest risk, of rule and change, that the grant lets pass."""
    paths: Annotated[tuple[PathPattern, ...], Meta(min_length=1, max_length=100)]
    """Every changed file must match one of these."""
    person: PersonName
    """The person who grants, by their name in the roster."""
    made_at: Timestamp
    """When the grant was made, by the clock of the person. It counts from then on."""
    not_after: Timestamp
    """When the grant ends."""
    max_uses: GrantUses
    """The number of runs that it may let pass."""
    classes: tuple[GrantableClass, ...] = ()
    """The only classes of protected paths that a change may touch."""
    versions: Literal["patch", "minor"] | None = None
    """The change may only update versions, each by this much at most; left out: no such limit."""
    comment: _Words = ""
    """A comment for the record."""


class GrantRevocation(Document):
    """The end of a grant before its time. Its canonical JSON is what the person signs."""

    grant_id: GrantId
    """Id of the grant."""
    grant_sha256: Sha256
    """SHA-256 of the canonical JSON of the grant."""
    person: PersonName
    """The person who revokes, by their name in the roster."""
    revoked_at: Timestamp
    """When the person decided, by their own clock."""
    comment: _Words = ""
    """A comment for the record."""


class GrantChange(Document):
    """A signed grant, or a signed revocation of one, sent to the gatekeeper."""

    kind: Literal["grant", "revocation"]
    """Kind of the signed document."""
    signed: SignedDecision
    """The document and its signature."""


class GrantUse(Document):
    """A run that a grant let pass."""

    run_id: RunId
    subject: NonEmpty
    """The tree of its candidate, or the digest of its contract before there is one."""
    at: Timestamp
    """When the run passed."""


class GrantStanding(Document):
    """A grant and its current state, with both signatures."""

    grant: ApprovalGrant
    """What was granted."""
    grant_sha256: Sha256
    """SHA-256 of the canonical JSON of the grant."""
    signed: SignedDecision
    """The grant as it was signed."""
    fingerprint: NonEmpty
    """Fingerprint of the key that signed the grant."""
    status: GrantStatus
    """Its current state."""
    recorded_at: Timestamp
    """When the gatekeeper recorded it."""
    uses: tuple[GrantUse, ...] = ()
    """The runs that it let pass."""
    revocation: SignedDecision | None = None
    """The revocation as it was signed."""
    revoked_by: str = ""
    """The person who revoked it."""
    revoked_at: str = ""
    """When the gatekeeper recorded the revocation."""


class ApprovalsRequest(Document):
    """Asks the gatekeeper which requests there are."""

    run_id: RunId | None = None
    pending_only: bool = False
    """Only requests that wait for an answer."""
    details: bool = False
    """With gate verdicts and patch; for one run only."""
    grants: bool = False
    """List all grants instead of requests."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    """Maximum number of entries."""


class Delegation(Document):
    """A request that ``person`` has handed to ``to``."""

    person: PersonName
    """The person who handed the request on."""
    to: PersonName
    """The person who is asked instead."""
    at: str
    """When, by the gatekeeper's clock."""


class GateSummary(Document):
    """The last verdict of a gate on what is decided."""

    gate: GateName
    """Which gate."""
    verdict: Literal["PASS", "FAIL"]
    """PASS or FAIL; there is nothing in between."""
    code: NonEmpty
    """ok, or the stable reason code."""


class QuotedWords(Document):
    """Words of a role or an agent."""

    speaker: _Line
    """The role or agent that wrote the words."""
    about: NonEmpty
    """What the words are."""
    text: _Words
    """The words."""


class PersonsComment(Document):
    """What a person wrote with an answer to a request."""

    person: NonEmpty
    """The person who wrote it, by their name in the roster."""
    verdict: DecisionVerdict
    """The decision. A comment decides nothing, a vote is one of several, a delegation passes the request to another person."""
    at: str
    """When the gatekeeper recorded it."""
    text: _Words
    """The words."""


class ApprovalSummary(Document):
    """What a person decides, in brief. Everything but ``moved`` comes from the ledger alone.

    ``title`` has the words of the order, ``quoted`` those of roles and agents, and ``comments`` those of people. No other field
    holds any.
    """

    title: Annotated[str, Meta(max_length=200)]
    """The words of the order, on one line, shortened."""
    ordered_by: tuple[NonEmpty, ...]
    """Every person who ordered the run, or may have; empty: unknown."""
    publisher: NonEmpty
    """The identity that submitted the run."""
    requested_by: str
    """Who ordered the run, as the publisher claims."""
    repository: str
    """The repository."""
    lands_on: str
    """The ref that the change lands on; empty: none."""
    why: _Words
    """Why a person is asked, in the words of the gatekeeper."""
    on_silence: NonEmpty
    """What happens without an answer, in the words of the gatekeeper."""
    gates: tuple[GateSummary, ...]
    """The last verdict of each gate on what is decided, in the order of the run."""
    changed_files: Count | None = None
    """Number of files that the change touches; null: there is no change yet."""
    changed_lines: Count | None = None
    """Number of lines that the change adds and removes; null: there is no change yet, or they were not counted."""
    quoted: tuple[QuotedWords, ...] = ()
    """Words of roles and agents."""
    comments: tuple[PersonsComment, ...] = ()
    """What people wrote with their answers, the oldest first."""
    moved: MovedTarget | None = None
    """For a run that waits for a person: its target branch, if that has moved from the commit that the run started from."""


class ApprovalStanding(Document):
    """A request and its current state."""

    request: ApprovalRequest
    """The question."""
    request_sha256: Sha256
    """SHA-256 of the canonical JSON of the request."""
    status: ApprovalStatus
    """Its current state."""
    decided_by: str = ""
    """Who decided: a person, or the rule; empty: not decided yet."""
    decided_at: str = ""
    """When the person decided, by their own clock."""
    approved_by: tuple[PersonName, ...] = ()
    """People whose approvals count so far."""
    comments: tuple[str, ...] = ()
    """Names of the people who commented."""
    gates: tuple[GateStanding, ...] = ()
    """Verdicts so far."""
    patch: str = ""
    """The patch: its artifact URI in a request, its text in a list."""
    patch_bytes: Count = 0
    """Size of the whole patch."""
    review: ReviewStanding | None = None
    """The current state of the review, where one was asked for."""
    delegations: tuple[Delegation, ...] = ()
    """Who handed the request to whom, the earliest first."""
    summary: ApprovalSummary | None = None
    """What a person decides, in brief. Older gatekeepers leave it out."""


class ApprovalList(Document):
    """Requests, or grants, and their current state. The answer to an ``approvals_request.v1``."""

    approvals: tuple[ApprovalStanding, ...]
    """The requests, the oldest first."""
    more: bool
    """Whether there are more."""
    draft: ReviewStanding | None = None
    """For one run, while the change is being made: the review that will be asked for."""
    grants: tuple[GrantStanding, ...] = ()
    """The grants, the oldest first, if they were asked for."""
