"""``deployments.json``: the commands that deploy landed commits, and what each of them may reach.

Without the file nothing can be deployed.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.errors import MalformedError
from gatewright.git.access.policy import RefPattern, RepositoryPattern
from gatewright.git.access.repository_patterns import covers_address, ref_covered
from gatewright.policy_files import AbsolutePath, KeyOwner, KeyReference, PolicyFile, PolicyModel

_Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]


class DeploymentApi(PolicyModel):
    """A server that the command may call, through the gateway only.

    ``hosts``, ``ports``, ``private`` and ``http`` as in ``egress.json``. ``methods``: what may be sent besides GET and HEAD.
    ``credentials``: the value of the header Authorization, or a token. The gateway adds it; the command never has it.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    hosts: tuple[str, ...] = Field(min_length=1, max_length=50)
    ports: tuple[int, ...] = (443,)
    methods: tuple[Literal["POST", "PUT", "PATCH", "DELETE"], ...] = ()
    private: bool = False
    http: bool = False
    credentials: KeyReference | None = None

    @model_validator(mode="after")
    def _host_forms(self) -> Self:
        self.source  # noqa: B018 - raises ValueError for a host that is none
        return self

    @property
    def source(self) -> EgressSource:
        """Return it as the gateway's source."""
        same = self.model_dump(include={"name", "hosts", "ports", "private", "http"})
        return EgressSource(**same, credential=self.variable)

    @property
    def variable(self) -> str:
        """Return the name by which the gateway finds the credentials; empty without."""
        return f"of_{self.name.replace('-', '_')}" if self.credentials is not None else ""


class _Egress(EgressPolicy):
    file: ClassVar[str] = "deployments.json"


class DeploymentEntry(PolicyModel):
    """One deployment.

    ``command``: an argv, run in the commit's files. ``repositories``, ``refs``: patterns as in ``publishers.json``, of runs
    whose commits may be deployed. ``environment``: folder whose programs come first. ``timeout_sec``: seconds for the
    command. ``requests``: most of one deployment; ``body_bytes``: of one of them. ``key``: file of the private key that signs,
    by default that of the home folder.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    command: tuple[_Word, ...] = Field(min_length=1, max_length=100)
    repositories: tuple[RepositoryPattern, ...] = Field(min_length=1, max_length=100)
    refs: tuple[RefPattern, ...] = Field(min_length=1, max_length=100)
    apis: tuple[DeploymentApi, ...] = Field(default=(), max_length=50)
    environment: AbsolutePath | None = None
    timeout_sec: int = Field(default=600, ge=1, le=7200)
    requests: int = Field(default=20_000, ge=1, le=1_000_000)
    body_bytes: int = Field(default=64 << 20, ge=1, le=1 << 30)
    key: AbsolutePath | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({each.name for each in self.apis}) != len(self.apis):
            raise ValueError("two APIs have one name")
        return self

    def covers(self, repository: str, ref: str) -> bool:
        """Return whether a commit that landed on ``ref`` may be deployed."""
        return ref_covered(ref, self.refs) and covers_address(repository, self.repositories)

    def egress(self) -> EgressPolicy:
        """Return what the gateway permits."""
        sources = tuple(each.source for each in self.apis)
        return _Egress(version="1", sources=sources, requests=self.requests, seconds=float(self.timeout_sec))

    def secrets(self) -> dict[str, str]:
        """Return the credentials for the gateway. Raises ConfigurationError (``deployment_credentials_missing``)."""
        return {
            each.variable: each.credentials.read(KeyOwner(f"the API {each.name}", "deployment_credentials_missing"))
            for each in self.apis
            if each.credentials is not None
        }


class DeploymentsPolicy(PolicyModel):
    """Every deployment, by name."""

    # Messages never repeat a key that was written into the file by mistake.
    model_config = ConfigDict(hide_input_in_errors=True)

    version: Literal["1"]
    deployments: tuple[DeploymentEntry, ...] = Field(max_length=100)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({each.name for each in self.deployments}) != len(self.deployments):
            raise ValueError("two deployments have one name")
        return self

    def entry(self, name: str) -> DeploymentEntry:
        """Return the deployment. Raises MalformedError (``deployment_unknown``)."""
        found = next((each for each in self.deployments if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in self.deployments) or "none"
            words = f"there is no deployment {name[:80]!r} in deployments.json; its deployments: {known}"
            raise MalformedError(words, code="deployment_unknown")
        return found


#: Without the file there is no deployment.
DEPLOYMENTS_FILE: Final = PolicyFile(
    "deployments.json", DeploymentsPolicy, default=lambda: DeploymentsPolicy(version="1", deployments=())
)
