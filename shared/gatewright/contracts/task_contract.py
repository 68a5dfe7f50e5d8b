"""The task contract: the only valid carrier of an instruction (specification 6.1).

Field names and meanings are those of CortexPilot's ``task_contract.v1``, and whatever is valid there is valid here. The fields
after ``role_contract`` are ours and optional.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.consultation import Consultation
from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import (
    END,
    AcceptanceTest,
    Agent,
    Artifact,
    Attempt,
    Budget,
    CandidateNumber,
    Candidates,
    Count,
    Document,
    DocumentId,
    Environment,
    EnvironmentProfile,
    Executor,
    Filesystem,
    MutationBounds,
    Needs,
    Network,
    NonEmpty,
    OrderedBy,
    Person,
    PolicyPack,
    Priority,
    Repository,
    RequirementId,
    RoleName,
    Scope,
    Sharding,
    Shell,
    SourceBranch,
    TimeoutRetry,
    ToolPermissions,
    keep_one_spelling,
)

TaskType = Literal["PLAN", "IMPLEMENT", "REVIEW", "TEST", "SEARCH"]


class Inputs(Document):
    spec: NonEmpty
    artifacts: tuple[Artifact, ...]


class RequiredOutput(Document):
    name: str
    type: Literal["patch", "commit", "report", "json", "file"]
    acceptance: str


class Rollback(Document):
    """``baseline_ref`` is pinned to a full commit id when the run is accepted."""

    strategy: Literal["git_reset_hard", "git_revert_commit", "worktree_drop"]
    baseline_ref: str
    target_ref: str | None = None


class LogPaths(Document):
    codex_jsonl: str | None = None
    codex_transcript: str | None = None
    git_diff: str | None = None
    tests_log: str | None = None
    trace_id: str | None = None


class LogRefs(Document):
    run_id: str
    paths: LogPaths


class HandoffChain(Document):
    enabled: bool = False
    roles: tuple[RoleName, ...] = ()
    max_handoffs: Annotated[int, Meta(ge=1, le=10)] | None = None


class ProfileRef(Document):
    profile_dir: str | None = None
    profile_name: str | None = None


class CookieRef(Document):
    cookie_path: str | None = None


class HumanBehavior(Document):
    enabled: bool = False
    level: Literal["low", "medium", "high"] | None = None


class BrowserPolicy(Document):
    profile_mode: Literal["ephemeral", "allow_profile", "cookie_file"] | None = None
    profile_ref: ProfileRef | None = None
    cookie_ref: CookieRef | None = None
    stealth_mode: Literal["none", "lite", "plugin"] | None = None
    human_behavior: HumanBehavior | None = None


class Execution(Document):
    mcp_first: bool = False


class RuntimeOptions(Document):
    runner: Literal["agents", "app-server", "app_server", "codex", "claude"] | None = None
    provider: Annotated[str, Meta(pattern=rf"^[A-Za-z0-9._-]+{END}")] | None = None
    execution: Execution | None = None
    strict_acceptance: bool = False


class RoleIdentity(Document):
    role: RoleName
    agent_id: NonEmpty


class RuntimeBinding(Document):
    runner: str | None
    provider: str | None
    model: str | None


class RolePermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network


class Handoff(Document):
    eligible: bool
    required_downstream_roles: tuple[RoleName, ...]
    chain_roles: tuple[RoleName, ...]
    max_handoffs: Count | None


class RoleContract(Document):
    """The resolved, read-friendly view of the role; drift from the top-level fields is refused (specification 6.1.4)."""

    identity: RoleIdentity
    purpose: NonEmpty
    system_prompt_ref: str | None
    skills_bundle_ref: str | None
    mcp_bundle_ref: str | None
    runtime_binding: RuntimeBinding
    tool_permissions: RolePermissions
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    handoff: Handoff
    fail_closed_conditions: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]


#: Of the answers, so many; and characters of each text in one.
MOST_ANSWERS = 16
MOST_ANSWER_WORDS = 2000
_Words = Annotated[str, Meta(max_length=MOST_ANSWER_WORDS)]


class PersonsAnswer(Document):
    """What a person said to a question of the run. ``stands``: they let the guess stand; else they only commented on it."""

    question: _Words
    best_guess: _Words
    person: NonEmpty
    words: _Words = ""
    stands: bool = False


class TaskQuestions(Document):
    """A task that has this may ask, in the file that is reserved for it. Written by the gatekeeper alone."""

    answers: Annotated[tuple[PersonsAnswer, ...], Meta(max_length=MOST_ANSWERS)] = ()


class OperatorWords(Document):
    """What a person said when the run was to have one more round. ``grants``: they gave it; else they only commented."""

    person: NonEmpty
    words: Annotated[str, Meta(min_length=1, max_length=MOST_ANSWER_WORDS)]
    grants: bool = False


class TaskContract(Document):
    task_id: DocumentId
    owner_agent: Agent
    assigned_agent: Agent
    inputs: Inputs
    required_outputs: tuple[RequiredOutput, ...]
    allowed_paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    forbidden_actions: tuple[str, ...]
    acceptance_tests: Annotated[tuple[AcceptanceTest, ...], Meta(min_length=1)]
    tool_permissions: ToolPermissions
    timeout_retry: TimeoutRetry
    rollback: Rollback
    evidence_links: tuple[str, ...]
    log_refs: LogRefs
    mcp_tool_set: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    task_type: TaskType = "IMPLEMENT"
    parent_task_id: str | None = None
    policy_pack: PolicyPack | None = None
    handoff_chain: HandoffChain | None = None
    audit_only: bool = False
    #: The publisher of the run answers what an agent asks leave for, where the shell permission wants it approved.
    interactive: bool = False
    browser_policy: BrowserPolicy | None = None
    runtime_options: RuntimeOptions | None = None
    role_contract: RoleContract | None = None
    # Ours: optional fields beside the inherited ones.
    repository: Repository | None = None
    executor: Executor | None = None
    #: In place of ``executor``: the change is made once by each of these, and the best of them lands.
    candidates: Candidates | None = None
    #: Which of them a task is about, 1 first. Written by the gatekeeper alone.
    candidate: CandidateNumber | None = None
    sharding: Sharding | None = None
    environment: Environment | None = None
    environment_profile: EnvironmentProfile | None = None
    scope: Scope | None = None
    budget: Budget | None = None
    requirement_ids: tuple[RequirementId, ...] = ()
    priority: Priority = "normal"
    #: What the processes that work on the run have to have, in the operator's words (``gpu``); pools.json says which pools do.
    needs: Needs = ()
    #: The author of the landed commit; without one it is Gatewright's, who is the committer always.
    author: Person | None = None
    source_branch: SourceBranch | None = None
    #: The person who ordered it, as the publisher knows them; empty: it knows no person. Decides who may not approve the run.
    ordered_by: OrderedBy = ()
    #: What was asked for, where ``tool_permissions`` are what was granted instead. Written by the gatekeeper alone.
    requested_permissions: ToolPermissions | None = None
    #: Of a test runner's task, where its policy pack asks for mutants. Written by the gatekeeper alone.
    mutation: MutationBounds | None = None
    #: What of the run may go to providers of models, where the operator's policy asks. Written by the gatekeeper alone.
    transfer: TransferLeave | None = None
    #: Of a worker's task, where a rule of the run asks people what tasks cannot tell. Written by the gatekeeper alone.
    questions: TaskQuestions | None = None
    operator_words: Annotated[tuple[OperatorWords, ...], Meta(max_length=MOST_ANSWERS)] = ()
    #: Which answer of the executor to take: 1 for the first attempt, raised by every round of the fix loop.
    attempt: Attempt = 1
    #: What the pm asked a model to write it; None where no model was asked.
    consultation: Consultation | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "task_type", "priority")
