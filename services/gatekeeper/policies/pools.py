"""``pools.json``: the pools of workers and test runners, and their capabilities. Pure.

The needs of a run are the language of its environment profile, the agents of its executors, and the words in its contract's
``needs``. Each role gets the first pool of the file that has all of them. Other roles run no commands of a run and use
``default``. Without the file there is one pool, ``default``, with every language and every agent and no further capability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, model_validator

from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import Language
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.policy_files import PolicyFile, PolicyModel
from gatewright.profiles.choice import chosen_profile
from gatewright.profiles.policy import EnvironmentsPolicy
from gatewright.worker_role import ways

PooledRole = Literal["worker", "testrunner"]
POOLED_ROLES: Final[tuple[PooledRole, ...]] = get_args(PooledRole)
PoolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")]
Capability = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._:-]{0,63}$")]


@dataclass(frozen=True, slots=True)
class RunNeeds:
    """Capabilities that a run needs; ``named`` are the ones that its contract states."""

    languages: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    @classmethod
    def of(cls, order: RunRequest | TaskContract, environments: EnvironmentsPolicy) -> RunNeeds:
        """Return the needs of a contract, or of a request as far as they are known before the pm completes it."""
        language = None
        if isinstance(order, TaskContract):
            language = order.environment_profile.language if order.environment_profile is not None else None
        else:
            profile = chosen_profile(order, environments)
            language = profile.language if profile is not None else None
        agents = (way.agent for way in ways(order) if way.kind == "agent")
        return cls(frozenset({language} if language else ()), frozenset(filter(None, agents)), frozenset(order.needs))

    def of_role(self, role: PooledRole) -> RunNeeds:
        """Return the needs that apply to a role: a test runner starts no agent."""
        return self if role == "worker" else RunNeeds(self.languages, frozenset(), self.named)

    @property
    def words(self) -> str:
        found = (
            *(f"language {each}" for each in sorted(self.languages)),
            *(f"agent {each}" for each in sorted(self.agents)),
            *sorted(self.named),
        )
        return ", ".join(found) or "nothing in particular"


class Pool(PolicyModel):
    """Capabilities of one pool: ``null`` means any language or agent, ``offers`` are words of the operator."""

    name: PoolName
    roles: tuple[PooledRole, ...] = Field(default=POOLED_ROLES, min_length=1)
    languages: tuple[Language, ...] | None = None
    agents: tuple[str, ...] | None = None
    offers: tuple[Capability, ...] = ()

    def has(self, needs: RunNeeds) -> bool:
        return (
            (self.languages is None or needs.languages <= set(self.languages))
            and (self.agents is None or needs.agents <= set(self.agents))
            and needs.named <= set(self.offers)
        )


class PoolsPolicy(PolicyModel):
    """The pools, in order of preference."""

    version: Literal["1"]
    pools: tuple[Pool, ...] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _once(self) -> PoolsPolicy:
        """Refuse two entries of one name: the capabilities would depend on which one is used."""
        for name, count in Counter(pool.name for pool in self.pools).items():
            if count > 1:
                raise ValueError(f"{name} is listed {count} times")
        for role in POOLED_ROLES:
            if not any(role in pool.roles for pool in self.pools):
                raise ValueError(f"no pool is for the {role}")
        return self

    def choose(self, role: PooledRole, needs: RunNeeds) -> str:
        """Return the pool of a role.

        Raises:
            DeniedError: ``need_unknown`` when no pool offers a word, otherwise ``no_pool_for_needs``.
        """
        wanted = needs.of_role(role)
        known = {word for pool in self.pools for word in pool.offers}
        if unknown := sorted(wanted.named - known):
            words = f"no pool offers {', '.join(unknown)}; there are {self._list_pools(self.pools)}"
            raise DeniedError(words, code="need_unknown")
        pools = [pool for pool in self.pools if role in pool.roles]
        for pool in pools:
            if pool.has(wanted):
                return pool.name
        words = f"no pool of the {role} has {wanted.words} together; there are {self._list_pools(pools)}"
        raise DeniedError(words, code="no_pool_for_needs")

    def placement(self, needs: RunNeeds) -> dict[str, str]:
        """Return the pool of every role that has a matching one."""
        chosen: dict[str, str] = {}
        for role in POOLED_ROLES:
            try:
                chosen[role] = self.choose(role, needs)
            except DeniedError:
                continue  # the policy gate reports it and ends the run
        return chosen

    def check_served(self, queues: Iterable[str]) -> None:
        """Check that every pool has queues: tasks of a pool without queues would never be processed.

        Raises:
            ConfigurationError: names the pool.
        """
        missing = sorted({pool.name for pool in self.pools} - set(queues))
        if missing:
            raise ConfigurationError(
                f"{POOLS_FILE} names {', '.join(missing)}, for which there are no queues: name every pool in GATEWRIGHT_POOLS, "
                f"{DEFAULT_POOL} among them, and in the server's configuration (`gatewright topology --pool`)"
            )

    @staticmethod
    def _list_pools(pools: Iterable[Pool]) -> str:
        return "; ".join(f"{pool.name} ({_capabilities(pool)})" for pool in pools)


ONE_POOL: Final = PoolsPolicy(version="1", pools=(Pool(name=DEFAULT_POOL),))
POOLS_FILE: Final = PolicyFile("pools.json", PoolsPolicy, default=lambda: ONE_POOL)


def _capabilities(pool: Pool) -> str:
    languages = "any language" if pool.languages is None else f"languages {', '.join(pool.languages) or 'none'}"
    agents = "any agent" if pool.agents is None else f"agents {', '.join(pool.agents) or 'none'}"
    return "; ".join((languages, agents, *([f"offers {', '.join(pool.offers)}"] if pool.offers else [])))
