"""The task contract: the only valid carrier of an instruction (specification 6.1).

Field names and meanings are those of CortexPilot's ``task_contract.v1``, and every document that is valid there is valid here.
The fields after ``role_contract`` are Gatewright's and optional.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.consultation import Consultation
from gatewright.contracts.order import Order
from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import (
    END,
    AcceptanceTest,
    Agent,
    Artifact,
    Attempt,
    CandidateNumber,
    Count,
    Document,
    DocumentId,
    Environment,
    EnvironmentProfile,
    Filesystem,
    MutationBounds,
    Network,
    NonEmpty,
    PolicyPack,
    Repository,
    RoleName,
    Shell,
    TimeoutRetry,
    ToolPermissions,
    keep_one_spelling,
)

TaskType = Literal["PLAN", "IMPLEMENT", "REVIEW", "TEST", "SEARCH"]


class Inputs(Document):
    spec: NonEmpty
    """What is to be done, in words."""
    artifacts: tuple[Artifact, ...]
    """Named blobs: patches, replies, failed evidence, output schemas (specification 6.1.3)."""


class RequiredOutput(Document):
    name: str
    """Name of the output, a path for instance."""
    type: Literal["patch", "commit", "report", "json", "file"]
    """Kind of the output."""
    acceptance: str
    """What makes it acceptable, for people; never evaluated."""


class Rollback(Document):
    """Where the change starts, and how it would be undone."""

    strategy: Literal["git_reset_hard", "git_revert_commit", "worktree_drop"]
    """How a failed change is undone. Gatewright never touches the target before landing, so nothing is left to undo."""
    baseline_ref: str
    """Branch, tag or commit that the change is made from; pinned to a full commit id when the run is accepted."""
    target_ref: str | None = None
    """Commit to return to; used by git_revert_commit only."""


class LogPaths(Document):
    codex_jsonl: str | None = None
    """Raw event stream of the agent."""
    codex_transcript: str | None = None
    """Transcript of the agent, for people."""
    git_diff: str | None = None
    """The diff."""
    tests_log: str | None = None
    """Output of the acceptance tests."""
    trace_id: str | None = None
    """Id of the distributed trace."""


class LogRefs(Document):
    run_id: str
    """The run that the task belongs to. The intake replaces the value of an outside contract."""
    paths: LogPaths
    """Paths inside the run bundle. They are kept as they are and never opened."""


class HandoffChain(Document):
    """The roles that get the task, each after the one before. A role outside of the chain gets no task and no question."""

    enabled: bool = False
    """Whether the task may be handed on at all."""
    roles: tuple[RoleName, ...] = ()
    """The roles, in order; the chain decides nothing without them, or when it is not enabled."""
    max_handoffs: Annotated[int, Meta(ge=1, le=10)] | None = None
    """How often it may be handed on at most."""

    @property
    def takers(self) -> tuple[RoleName, ...]:
        """Return the roles that the chain decides about; none when it decides nothing."""
        return self.roles if self.enabled else ()


class ProfileRef(Document):
    profile_dir: str | None = None
    """Directory of the profiles."""
    profile_name: str | None = None
    """Name of one of them."""


class CookieRef(Document):
    cookie_path: str | None = None
    """The cookie file."""


class HumanBehavior(Document):
    enabled: bool = False
    """Whether the imitation is on."""
    level: Literal["low", "medium", "high"] | None = None
    """How strong the imitation is."""


class BrowserPolicy(Document):
    profile_mode: Literal["ephemeral", "allow_profile", "cookie_file"] | None = None
    """Which browser profile is used."""
    profile_ref: ProfileRef | None = None
    """The profile, for allow_profile."""
    cookie_ref: CookieRef | None = None
    """The cookies, for cookie_file."""
    stealth_mode: Literal["none", "lite", "plugin"] | None = None
    """How far automation is hidden from sites."""
    human_behavior: HumanBehavior | None = None
    """Imitation of a person's pace."""


class Execution(Document):
    mcp_first: bool = False
    """Prefer MCP where there are several ways."""


class RuntimeOptions(Document):
    runner: Literal["agents", "app-server", "app_server", "codex", "claude"] | None = None
    """The runner; both spellings of app-server mean the same."""
    provider: Annotated[str, Meta(pattern=rf"^[A-Za-z0-9._-]+{END}")] | None = None
    """The model's provider."""
    execution: Execution | None = None
    """Hints for the runner."""
    strict_acceptance: bool = False
    """Refuse acceptance tests that prove nothing, such as true or echo."""


class RoleIdentity(Document):
    role: RoleName
    agent_id: NonEmpty
    """Id of the agent in the agent registry."""


class RuntimeBinding(Document):
    runner: str | None
    """Same as runtime_options.runner."""
    provider: str | None
    """Same as runtime_options.provider."""
    model: str | None
    """The model."""


class RolePermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network


class Handoff(Document):
    eligible: bool
    """Whether the role may pass the task on."""
    required_downstream_roles: tuple[RoleName, ...]
    """Roles that must come after it."""
    chain_roles: tuple[RoleName, ...]
    """Same as handoff_chain.roles."""
    max_handoffs: Count | None
    """Same as handoff_chain.max_handoffs; null means none is set."""


class RoleContract(Document):
    """The resolved, readable view of the role.

    A contract whose top-level fields differ from it is refused (specification 6.1.4).
    """

    identity: RoleIdentity
    """Same as assigned_agent."""
    purpose: NonEmpty
    """What the role is for."""
    system_prompt_ref: str | None
    """The role's prompt."""
    skills_bundle_ref: str | None
    """The role's skills."""
    mcp_bundle_ref: str | None
    """The role's MCP servers."""
    runtime_binding: RuntimeBinding
    """What runs the role, as far as known."""
    tool_permissions: RolePermissions
    """Same as the top-level tool_permissions."""
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    """Same as mcp_tool_set."""
    handoff: Handoff
    """Roles that the role may pass the task to."""
    fail_closed_conditions: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Conditions, in words, under which the role must stop."""


#: Of the answers, so many; and characters of each text in one.
MOST_ANSWERS = 16
MOST_ANSWER_WORDS = 2000
_Words = Annotated[str, Meta(max_length=MOST_ANSWER_WORDS)]


class PersonsAnswer(Document):
    """What a person answered to a question of the run."""

    question: _Words
    """The question."""
    best_guess: _Words
    """The guess that the run continued with."""
    person: NonEmpty
    """The person who answered, by their name in the roster."""
    words: _Words = ""
    """What the person wrote."""
    stands: bool = False
    """Whether the person confirmed the guess; else they only commented."""


class TaskQuestions(Document):
    """The task may put questions to people, in the file that is reserved for them."""

    answers: Annotated[tuple[PersonsAnswer, ...], Meta(max_length=MOST_ANSWERS)] = ()
    """What people answered, the oldest first."""


class OperatorWords(Document):
    """What a person wrote when the run was to have one more round."""

    person: NonEmpty
    """The person, by their name in the roster."""
    words: Annotated[str, Meta(min_length=1, max_length=MOST_ANSWER_WORDS)]
    """What the person wrote."""
    grants: bool = False
    """Whether the person granted the round; else they only commented."""


class TaskContract(Order):
    """The only valid carrier of an instruction (specification 6.1).

    What is valid under CortexPilot's ``task_contract.v1`` is valid here. Gatewright's own fields are all optional. Pieces that
    other documents share with this one are in its ``$defs``.
    """

    task_id: DocumentId
    """Id of the task, unique within its run. It is never used as a file name or a subject."""
    owner_agent: Agent
    """Who gave the task and answers for its wording."""
    assigned_agent: Agent
    """Who has to do it (specification 6.1: the execution owner is explicit)."""
    inputs: Inputs
    """What the agent is given."""
    required_outputs: tuple[RequiredOutput, ...]
    """What the task has to produce."""
    allowed_paths: tuple[NonEmpty, ...]
    """Where files may change: exact paths or directory prefixes, with /, from the repository's root. No wildcards
    (specification 6.1). Empty only where nothing changes: in an order for a review or a test."""
    forbidden_actions: tuple[str, ...]
    """What must not be done, beside the policy's own list (specification 8, mechanism 5)."""
    acceptance_tests: tuple[AcceptanceTest, ...]
    """The commands that the test runner runs on the candidate, exactly these and no others. Empty only in an order for a
    review."""
    tool_permissions: ToolPermissions
    """What the agent may use; never more than its role has (specification 8, mechanism 5)."""
    timeout_retry: TimeoutRetry
    """How long and how often."""
    rollback: Rollback
    """Where the change starts, and how it would be undone."""
    evidence_links: tuple[str, ...]
    """Links to what the task rests on. They are never fetched."""
    log_refs: LogRefs
    """Where the traces of this task are."""
    mcp_tool_set: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """MCP tools that must be available when the task starts, as the tech lead declares them."""
    task_type: TaskType = "IMPLEMENT"
    """Order for the assigned agent. In an order, the kind of the run: only IMPLEMENT lands a change."""
    parent_task_id: str | None = None
    """The task that this one was split from, or that failed and is fixed by this one."""
    policy_pack: PolicyPack | None = None
    """Risk tier of the change."""
    handoff_chain: HandoffChain | None = None
    """The roles that the task may be handed to."""
    browser_policy: BrowserPolicy | None = None
    """How an agent that drives a browser has to behave."""
    runtime_options: RuntimeOptions | None = None
    """Which program runs the agent."""
    role_contract: RoleContract | None = None
    """The resolved, readable view of the role. A contract whose top-level fields differ from it is refused (specification
    6.1.4)."""
    # Gatewright's own from here on, as are the fields of Order but audit_only: optional, beside the inherited ones.
    repository: Repository | None = None
    """Where the change belongs. The schema lets it be absent, the policy gate does not."""
    candidate: CandidateNumber | None = None
    """Written by the gatekeeper alone: number of the candidate that the task is about, 1 first."""
    environment_profile: EnvironmentProfile | None = None
    """The operator's profile for the language of the run, and how the language was determined."""
    requested_permissions: ToolPermissions | None = None
    """Written by the gatekeeper alone: the permissions that the contract asked for, if tool_permissions holds what was granted
    instead."""
    mutation: MutationBounds | None = None
    """Written by the gatekeeper alone, into the test runner's task if the policy pack asks for it: mutants of the change that
    are tried against its tests."""
    baseline_environment: Environment | None = None
    """Written by the gatekeeper alone, into the test runner's task with pulled environments: what commands see that run on the
    baseline."""
    transfer: TransferLeave | None = None
    """Written by the gatekeeper alone: what the task may send to providers of models, by an approved transfer manifest."""
    questions: TaskQuestions | None = None
    """Written by the gatekeeper alone, where a rule of the run asks people: the worker's task may ask people what it cannot
    answer. It has their answers to earlier questions of the run."""
    operator_words: Annotated[tuple[OperatorWords, ...], Meta(max_length=MOST_ANSWERS)] = ()
    """Written by the gatekeeper alone: what people wrote when they gave the run one more round, the oldest first."""
    attempt: Attempt = 1
    """Number of the executor's answer to take: 1 first, increased by every round of the fix loop."""
    consultation: Consultation | None = None
    """What the pm asked a model in order to write the contract; left out if no model was asked."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "task_type", "priority", "tests")
