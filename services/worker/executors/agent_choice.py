"""Which agent makes a change: the one that the contract names, or the first of ``agents.json`` that may make this one here.

An agent may when it is installed in a version that was tried, was probed as it is now, can be held to the contract, and can ask
a model whose key is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gatewright.agents.admission_record import ADMISSION
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import AgentEntry, AgentsPolicy
from gatewright.contracts.vocabulary import Shell
from gatewright.errors import ConfigurationError, DeniedError, GatewrightError, UnavailableError
from gatewright.models.choice import provider_of
from gatewright.models.policy import ModelsPolicy
from gatewright.services.worker.agents.probe.admission import check_permitted, read_admission
from gatewright.services.worker.executors.model_calls import model_for
from gatewright.services.worker.executors.port import Job

NOT_INSTALLED: Final = "agent_not_installed"


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """What decides: the operator's policies, the folders of the installations, and what the probe found (``admissions``).

    ``plays``: recorded calls are played in the place of every model, so that no key is needed.
    """

    agents: AgentsPolicy
    models: ModelsPolicy
    installations: tuple[Path, ...]
    admissions: Path
    pool: str | None = None
    plays: bool = False

    async def choose(self, job: Job, tree: str) -> tuple[InstalledAgent, Shell]:
        """The agent for ``job``, which begins at ``tree``, and the shell permission that it is given.

        What its probe found is kept with the job.

        Raises MalformedError (``agent_unknown``), UnavailableError (``agent_not_installed``), ConfigurationError
        (``model_key_missing``), DeniedError (``agent_not_admitted``, ``agent_not_permitted``, ``model_not_allowed``), GitError.
        """
        named = job.contract.executor.agent if job.contract.executor is not None else None
        if named is not None:
            return await self._usable(job, tree, self.agents.agent(named))
        faults: list[GatewrightError] = []
        for entry in self.agents.agents:
            try:
                return await self._usable(job, tree, entry)
            except (UnavailableError, DeniedError, ConfigurationError) as error:
                if isinstance(error, UnavailableError) and error.reason != NOT_INSTALLED:
                    raise
                faults.append(error)
        raise _none_of_them(faults)

    async def _usable(self, job: Job, tree: str, entry: AgentEntry) -> tuple[InstalledAgent, Shell]:
        agent = usable_agent(entry, self.installations)
        admission = await asyncio.to_thread(read_admission, self.admissions, agent)
        job.kept[ADMISSION] = msgspec.json.encode(admission)
        names: set[str] = set()
        if not admission.permitted.own_settings:
            entries = await job.mirror.files(tree, ())
            parts = {part.decode("utf-8", "replace") for file in entries for part in file.path.split(b"/")}
            names = parts - set(self.agents.masked_for(entry))
        contract = job.contract
        shell = contract.tool_permissions.shell
        shell = check_permitted(admission, shell=shell, read_only=contract.audit_only, names=names)
        self._check_model(job, entry)
        return agent, shell

    def _check_model(self, job: Job, entry: AgentEntry) -> None:
        """Raises DeniedError (``model_not_allowed``) and ConfigurationError (``model_key_missing``)."""
        model = model_for(self.models, job.contract, entry, pool=self.pool)
        provider = provider_of(self.models, model)
        if provider is None:
            # A name that is no model is for the gateway's grant to refuse, in its own words.
            return
        if entry.asks_by is not None and entry.asks_by not in provider.apis:
            words = f"the agent {entry.name} asks by the API {entry.asks_by}, and {model} by {', '.join(provider.apis)}"
            raise DeniedError(words, code="model_not_allowed")
        if provider.key is not None and not self.plays:
            provider.key.read()


def _none_of_them(faults: list[GatewrightError]) -> GatewrightError:
    """Return one error for all: of the installed agents, if there are any, since those can be fixed without an installation."""
    here = [fault for fault in faults if fault.reason != NOT_INSTALLED]
    words = "; ".join(dict.fromkeys(fault.message for fault in here or faults))
    if not here:
        return UnavailableError(words or "agents.json lists no agent", code=NOT_INSTALLED)
    if isinstance(here[0], ConfigurationError):
        return ConfigurationError(words, code=here[0].reason)
    return DeniedError(words, code=here[0].reason)
