"""Loader of the policy files. They are read once at start, from the operator's folder, never from a target repository.

The folder overrides the shipped policies file by file. An unreadable or invalid file, and a file with an unknown name, raise
ConfigurationError, and the gatekeeper does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, TypeVar, get_args

from pydantic import Field, model_validator

from gatewright.agents.policy import AGENTS_FILE, AgentsPolicy
from gatewright.contracts import AgentRegistry, QueueRules, RoutingRules, codec
from gatewright.contracts.progress import MemoryBounds
from gatewright.contracts.records import RegisteredAgent
from gatewright.ecosystems.runner.names import is_test, is_test_data
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.git.access.policy import REPOSITORIES_FILE
from gatewright.git.names import LARGEST, TreeLimits
from gatewright.git.paths import folded_path
from gatewright.models.policy import MODELS_FILE, ModelsPolicy
from gatewright.models.transfers import TRANSFERS_FILE, TransfersPolicy
from gatewright.path_patterns.matcher import PathMatcher, path_matcher
from gatewright.policy_files import ORGANISATION, POLICY_FILES, PolicyFile, PolicyModel, check_policy_folder, policy_path
from gatewright.profiles.policy import ENVIRONMENTS_FILE, EnvironmentsPolicy
from gatewright.research.policy import RESEARCH_FILE, ResearchPolicy
from gatewright.rules.policy_digest import policies_sha256
from gatewright.rules.summons import SummonsBounds
from gatewright.services.gatekeeper.policies.approval_policy import ApprovalPolicy, check_models, load_approval_policy
from gatewright.services.gatekeeper.policies.budgets import BUDGETS_FILE, BudgetsPolicy
from gatewright.services.gatekeeper.policies.cel_rules import CelRule, load_rules
from gatewright.services.gatekeeper.policies.commands import ALLOWLIST_FILE, CommandAllowlist
from gatewright.services.gatekeeper.policies.dispatch import BEATS_FILE, SHARES_FILE, BeatsPolicy, SharesPolicy
from gatewright.services.gatekeeper.policies.full_access import names_full_access
from gatewright.services.gatekeeper.policies.packages import (
    LICENCES_FILE,
    VULNERABILITIES_FILE,
    LicencesPolicy,
    VulnerabilitiesPolicy,
)
from gatewright.services.gatekeeper.policies.packs import PACKS_FILE, PolicyPacks
from gatewright.services.gatekeeper.policies.pools import POOLS_FILE, PoolsPolicy
from gatewright.services.gatekeeper.policies.publishers import PUBLISHERS_FILE, Publishers
from gatewright.services.gatekeeper.policies.queues import QUEUES_FILE, check_action_signers
from gatewright.services.gatekeeper.policies.roles import ROLES_FILE, RoleTable, registry_faults
from gatewright.services.gatekeeper.policies.run_policies import MEMORY_FILE, ROUTING_FILE, SUMMONS_FILE, check_routing

P = TypeVar("P")

ProtectedClass = Literal["sacred", "ci", "protected", "runner", "dependencies", "migrations"]
#: The contract field that opens a class, or another way to open it. ``by name``: only by naming the exact file.
OpenedBy = Literal[
    "nothing",
    "approval",
    "scope.allow_protected_paths",
    "scope.allow_protected_paths, by name",
    "scope.allow_dependency_change",
    "append-only",
]


class ForbiddenAction(PolicyModel):
    """A sequence of words that no command may contain."""

    name: str = Field(min_length=1)
    argv: tuple[str, ...] = Field(min_length=1)


class ForbiddenActions(PolicyModel):
    version: Literal["1"]
    actions: tuple[ForbiddenAction, ...] = Field(min_length=1)
    #: The only MCP tools that a contract may name.
    mcp_tools: tuple[str, ...]


class PathClass(PolicyModel):
    """Paths by gitignore patterns, compared case-insensitively, and the contract field that opens them.

    ``test_files``: the class also includes tests and test data by the conventions of the ecosystems
    (``ecosystems.runner.names``). ``content_decides``: names shared by many kinds of files, for the sacred class alone. Such a
    file is in the class when its content is a credential (``secrets.credential_files``), unless another pattern of ``patterns``
    matches it.
    """

    name: ProtectedClass
    opened_by: OpenedBy
    patterns: tuple[str, ...] = Field(min_length=1)
    test_files: bool = False
    content_decides: tuple[str, ...] = ()

    def has_by_name(self, path: bytes) -> bool:
        """Return whether ``path`` is in the class as a test file, also after a file system folds its name."""
        if not self.test_files:
            return False
        forms = {path, folded_path(path).encode("utf-8", "surrogateescape")}
        return any(is_test(form) or is_test_data(form) for form in forms)


class DiffLimits(PolicyModel):
    """Limits in bytes for one changed file and for the whole diff, number of changed files, and limits of new names.

    Every role enforces the built-in limits of names; a policy may lower them, never raise them.
    """

    max_file_bytes: int = Field(gt=0)
    max_diff_bytes: int = Field(gt=0)
    max_changed_files: int = Field(gt=0)
    max_path_bytes: int = Field(default=LARGEST.path_bytes, gt=0, le=LARGEST.path_bytes)
    max_name_bytes: int = Field(default=LARGEST.name_bytes, gt=0, le=LARGEST.name_bytes)
    max_path_depth: int = Field(default=LARGEST.depth, gt=0, le=LARGEST.depth)
    max_new_files: int = Field(default=LARGEST.new_files, gt=0, le=LARGEST.new_files)
    max_new_directories: int = Field(default=LARGEST.new_directories, gt=0, le=LARGEST.new_directories)

    @property
    def tree(self) -> TreeLimits:
        return TreeLimits(
            path_bytes=self.max_path_bytes,
            name_bytes=self.max_name_bytes,
            depth=self.max_path_depth,
            new_files=self.max_new_files,
            new_directories=self.max_new_directories,
        )


class ProtectedPaths(PolicyModel):
    version: Literal["1"]
    classes: tuple[PathClass, ...]
    limits: DiffLimits

    @model_validator(mode="after")
    def _check_classes(self) -> ProtectedPaths:
        """Require every class once, and that nothing opens the sacred class: a missing class would permit its paths."""
        names = [kind.name for kind in self.classes]
        if sorted(names) != sorted(get_args(ProtectedClass)):
            raise ValueError(f"every class must be named exactly once: {', '.join(get_args(ProtectedClass))}")
        if names[0] != "sacred" or [kind.name for kind in self.classes if kind.opened_by == "nothing"] != ["sacred"]:
            raise ValueError("the sacred class comes first, and nothing opens it")
        if [kind.name for kind in self.classes if kind.opened_by == "approval"] != ["ci"]:
            raise ValueError("the class ci, and it alone, is opened by an approval rule")
        if any(kind.content_decides for kind in self.classes[1:]):
            raise ValueError("content_decides is for the sacred class alone")
        by_name = [kind.name for kind in self.classes if kind.opened_by == "scope.allow_protected_paths, by name"]
        if by_name != ["runner"]:
            raise ValueError("the class runner, and it alone, is opened by name")
        return self


REGISTRY_FILE: Final = PolicyFile("agent_registry.json", AgentRegistry, decode=codec.decode)
FORBIDDEN_FILE: Final = PolicyFile("forbidden_actions.json", ForbiddenActions)
PROTECTED_FILE: Final = PolicyFile("protected_paths.json", ProtectedPaths)


@dataclass(frozen=True)
class Policies:
    """All policies, and their digest, which every bundle records."""

    registry: AgentRegistry
    allowlist: CommandAllowlist
    forbidden: ForbiddenActions
    protected: ProtectedPaths
    roles: RoleTable
    packs: PolicyPacks
    people: ApprovalPolicy
    routing: RoutingRules | None
    transfers: TransfersPolicy | None
    #: Maximum memory of earlier runs for a run; None: no memory.
    memory: MemoryBounds | None
    #: Permitted questions to roles about open runs; None: no questions.
    summons: SummonsBounds | None
    publishers: Publishers
    models: ModelsPolicy
    agents: AgentsPolicy
    environments: EnvironmentsPolicy
    pools: PoolsPolicy
    shares: SharesPolicy
    beats: BeatsPolicy
    queues: QueueRules
    research: ResearchPolicy
    budgets: BudgetsPolicy
    licences: LicencesPolicy
    #: Advisories for the packages of a run; None: no package is compared.
    vulnerabilities: VulnerabilitiesPolicy | None
    matcher: PathMatcher
    rules: tuple[CelRule, ...]
    sha256: str
    #: Digests of the files, by their names below the folder.
    digests: dict[str, str]
    #: Publishers from the settings; the overall digest includes them.
    named_publishers: tuple[str, ...] = ()

    def agent(self, role: str, agent_id: str) -> RegisteredAgent | None:
        """Return the registered agent with that id and role, or None."""
        return next((a for a in self.registry.agents if a.role == role and a.agent_id == agent_id), None)

    def path_classes(self, path: bytes) -> tuple[PathClass, ...]:
        """Return the classes of ``path`` (relative to the repository, with ``/``)."""
        numbers = self.matcher.of(path)
        return tuple(kind for number, kind in enumerate(self.protected.classes) if number in numbers or kind.has_by_name(path))

    def content_decides(self, path: bytes) -> bool:
        """Return whether the content of ``path``, rather than its name or folder, decides that it is sacred."""
        by_content, by_name = self._sacred_names
        return bool(by_content.of(path.rpartition(b"/")[2])) and not by_name.of(path)

    @cached_property
    def _sacred_names(self) -> tuple[PathMatcher, PathMatcher]:
        sacred = self.protected.classes[0]
        others = tuple(each for each in sacred.patterns if each not in sacred.content_decides)
        return path_matcher((sacred.content_decides,)), path_matcher((others,))

    @cached_property
    def runner(self) -> PathClass:
        """The class of settings that select which tests run; a file's content can put it into the class too."""
        return next(kind for kind in self.protected.classes if kind.name == "runner")


def load(folder: Path, named: tuple[str, ...] = ()) -> Policies:
    """Read and validate the policies in ``folder``.

    Args:
        folder: the operator's policy folder.
        named: publishers from the operator's settings. Those that the file does not list get the rule of ``default``.

    Raises:
        ConfigurationError: names the file and the place in it.
    """
    check_policy_folder(folder)
    reader = _PolicyReader(folder)
    beats = reader.read(BEATS_FILE)
    people = load_approval_policy(folder, beats.seconds)
    routing = reader.read_if_present(ROUTING_FILE)
    check_routing(ROUTING_FILE.path(folder), routing, people.rules)
    reader.read(REPOSITORIES_FILE)
    forbidden = reader.read(FORBIDDEN_FILE)
    roles = reader.read(ROLES_FILE)
    for role in roles.roles:
        for tool in role.mcp_tools:
            if tool not in forbidden.mcp_tools:
                words = f"{ROLES_FILE.path(folder)}: {role.role}: the tool {tool!r} is not on the allowlist"
                raise ConfigurationError(words)
    protected = reader.read(PROTECTED_FILE)
    rules = load_rules(policy_path(folder, ORGANISATION))
    listed = reader.read(PUBLISHERS_FILE)
    try:
        publishers = listed.with_named(named)
    except ValueError as error:
        raise ConfigurationError(f"GATEWRIGHT_PUBLISHERS: {error}") from error
    models = reader.read(MODELS_FILE)
    check_models(people.rules, models)
    registry = reader.read(REGISTRY_FILE)
    _check_registry(REGISTRY_FILE.path(folder), registry)
    memory, summons = reader.read_if_present(MEMORY_FILE), reader.read_if_present(SUMMONS_FILE)
    allowlist, packs = reader.read(ALLOWLIST_FILE), reader.read(PACKS_FILE)
    agents, environments, transfers = (
        reader.read(AGENTS_FILE),
        reader.read(ENVIRONMENTS_FILE),
        reader.read_if_present(TRANSFERS_FILE),
    )
    pools, shares, queues = reader.read(POOLS_FILE), reader.read(SHARES_FILE), reader.read(QUEUES_FILE)
    research, budgets, licences = reader.read(RESEARCH_FILE), reader.read(BUDGETS_FILE), reader.read(LICENCES_FILE)
    check_action_signers(str(QUEUES_FILE.path(folder)), queues, people.roster()[0])
    known = {publisher.name for publisher in listed.publishers}
    named_publishers = tuple(publisher.name for publisher in publishers.publishers if publisher.name not in known)
    vulnerabilities = reader.read_if_present(VULNERABILITIES_FILE)
    digests = reader.digests | dict(people.digests) | {f"{ORGANISATION}/{rule.name}": rule.sha256 for rule in rules}
    return Policies(
        registry=registry,
        allowlist=allowlist,
        forbidden=forbidden,
        protected=protected,
        roles=roles,
        packs=packs,
        people=people,
        routing=routing,
        transfers=transfers,
        memory=memory.bounds if memory is not None else None,
        summons=summons.bounds if summons is not None else None,
        publishers=publishers,
        models=models,
        agents=agents,
        environments=environments,
        pools=pools,
        shares=shares,
        beats=beats,
        queues=queues,
        research=research,
        budgets=budgets,
        licences=licences,
        vulnerabilities=vulnerabilities,
        rules=rules,
        matcher=_matcher(PROTECTED_FILE.path(folder), protected),
        sha256=policies_sha256(digests, named_publishers),
        digests=digests,
        named_publishers=named_publishers,
    )


class _PolicyReader:
    """Reader of one folder's files that keeps their digests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._digests: dict[str, str] = {}

    def read(self, file: PolicyFile[P]) -> P:
        """Return the policy in force, shipped or overridden.

        Raises:
            ConfigurationError: names the file and the place in it.
        """
        loaded = file.load(self._folder)
        if loaded.sha256 is not None:
            self._digests[file.name] = loaded.sha256
        return loaded.policy

    def read_if_present(self, file: PolicyFile[P]) -> P | None:
        """Return the policy like ``read``, or None when there is no file.

        Raises:
            ConfigurationError: names the file and the place in it.
        """
        return self.read(file) if file.path(self._folder).exists() else None

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the files read, in the order of ``POLICY_FILES``."""
        return {each.name: self._digests[each.name] for each in POLICY_FILES if each.name in self._digests}


def _matcher(path: Path, protected: ProtectedPaths) -> PathMatcher:
    try:
        return path_matcher(tuple(kind.patterns for kind in protected.classes))
    except MalformedError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _check_registry(path: Path, registry: AgentRegistry) -> None:
    """Refuse entries beyond the bounds of their role or without a sandbox. Raises ConfigurationError."""
    faults = list(registry_faults(registry))
    for agent in registry.agents:
        faults.extend(
            f"{agent.agent_id!r}: {words!r} would switch the sandbox off"
            for words in (*agent.capabilities, agent.codex_home or "")
            if names_full_access(words)
        )
    if faults:
        raise ConfigurationError(f"{path}: {'; '.join(faults)}")
