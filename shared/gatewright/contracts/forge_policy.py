"""The policy of ``gatewright forge`` (``forges.json``): the forge of each repository, and what is shown and judged there."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    END,
    AcceptanceTest,
    Document,
    Environment,
    LandingMode,
    NonEmpty,
    PolicyPack,
    Positive,
    TestPurpose,
    keep_one_spelling,
)

ForgeKind = Literal["github", "gitlab", "gitea"]
#: ``gatekeeper``: requests end when the gatekeeper has landed them. ``forge``: the forge merges what was judged.
MergeRule = Literal["never", "gatekeeper", "forge"]
#: Default of ``JudgeRule.max_seconds``.
JUDGE_SECONDS = 3600
_Login = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._@\[\]-]{{0,127}}{END}")]


class SecretReference(Document):
    """Where a secret is read from: exactly one of ``environment`` and ``file``. The policy itself contains no secret."""

    environment: Annotated[str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_]{{0,127}}{END}")] | None = None
    """Name of a variable of the process, or with _FILE behind it of the variable that names a file."""
    file: Annotated[str, Meta(pattern=rf"^/[^\x00-\x1f]{{1,1000}}{END}")] | None = None
    """Absolute path of a file whose first line is the secret."""


class JudgeRule(Document):
    """How change requests of others are judged. Nothing of a request's text changes it."""

    allowed_paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Where files may change: exact paths or directory prefixes."""
    tests: Annotated[tuple[AcceptanceTest, ...], Meta(min_length=1)]
    """The commands that prove a change."""
    environment: Environment | None = None
    """What the commands see beside the repository."""
    allow_tests: tuple[NonEmpty, ...] = ()
    """Protected paths that may change, such as tests, where the policy lets a contract allow that."""
    tests_purpose: TestPurpose = "change"
    """Whether new and changed tests show the change, or may pass without it (characterisation)."""
    policy_pack: PolicyPack = "low"
    """Risk tier of the runs."""
    authors: tuple[_Login, ...] = ()
    """Accounts whose requests are judged; empty: every account that may write to the project."""
    forks: Literal["never", "writers"] = "never"
    """Whether requests from forks are judged: never, or those of accounts that may write to the project."""
    max_seconds: Positive = JUDGE_SECONDS
    """Seconds that a run may take in all."""
    landing: LandingMode = "none"
    """Where a judged change lands; by default nowhere, so that only its check is shown."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "tests_purpose", "policy_pack", "forks", "landing")


class ForgeEntry(Document):
    """One repository on a forge."""

    name: Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,31}}{END}")]
    """Name of the entry, in logs, metrics and the address of its webhook."""
    repository: NonEmpty
    """Address of the repository, as runs name it."""
    kind: ForgeKind
    """Kind of the forge; gitea is Forgejo, too."""
    api: Annotated[str, Meta(pattern=rf"^https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?{END}", max_length=500)]
    """Base address of its API; https, or http on this host."""
    project: Annotated[str, Meta(pattern=rf"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+{END}", max_length=500)]
    """Owner and name of the project."""
    token: SecretReference
    """The access token. It may write requests and checks, never contents; for merge forge also merges."""
    target: Annotated[str, Meta(min_length=1, max_length=250)]
    """The branch that change requests are for, such as main."""
    webhook_secret: SecretReference | None = None
    """The secret of the webhook; without it the forge is polled alone."""
    requests: bool = False
    """Whether to open a change request for a run that landed on a branch of its own."""
    judge: JudgeRule | None = None
    """How requests of others are judged; null: not at all."""
    merge: MergeRule = "never"
    """Who merges a change request that passed."""
    check: Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9 ._/-]{{0,99}}{END}")] = "gatewright"
    """Name of the check on commits."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "merge", "check")


class Forges(Document):
    """The repositories whose runs are shown on forges."""

    version: Literal["1"]
    """Version of this format."""
    forges: Annotated[tuple[ForgeEntry, ...], Meta(max_length=100)]
    """One entry for each repository."""
