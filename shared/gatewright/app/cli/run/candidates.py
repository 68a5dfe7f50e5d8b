"""``--candidates``: who makes the change where several do, each for itself. Pure.

A number: so many of what the other options name; of commands and replies, one each. Or a list of names: an agent of
agents.json, ``AGENT=MODEL`` for it with that model, ``=MODEL`` for a model that is asked for whole files.
"""

from __future__ import annotations

import msgspec

from gatewright.contracts.vocabulary import Executor
from gatewright.errors import Fault
from gatewright.executor_kinds import EXECUTOR_KINDS, asked_first
from gatewright.order_form.rows import bounds_of
from gatewright.order_form.run_options import ANY_AGENT, row

#: How many there may be.
BOUNDS = bounds_of("candidates")
_PLACE = "/candidates"
#: The options that each name one maker; --model says more about --agent.
MAKER_FLAGS = ", ".join(row(kind.option).flag for name, kind in asked_first() if name != "model") + " and --head"


def names_of(given: str | None) -> tuple[str, ...]:
    """The names that the option lists; none where it is a number, or was not given."""
    return () if given is None or _is_number(given) else tuple(name.strip() for name in given.split(","))


def count_of(given: str | None) -> int:
    """How many candidates the option asks for; 1 where it was not given."""
    if given is None:
        return 1
    return int(given[:6]) if _is_number(given) else len(names_of(given))


def named_candidates(given: str, model: str | None, faults: list[Fault], *, fallback: bool) -> tuple[Executor, ...]:
    """One executor for each name, with ``model`` where the name says none; what is no name is added to ``faults``.

    With ``fallback`` other models may answer in the place of those that are named.
    """
    found = []
    for number, name in enumerate(names_of(given)):
        agent, with_model, named = name.partition("=")
        try:
            found.append(_executor(agent, named if with_model else model, fallback=fallback))
        except msgspec.ValidationError:
            words = f"--candidates {name!r}: an agent is called like codex, with a model codex=MODEL; a model alone is =MODEL"
            faults.append(Fault(f"{_PLACE}/{number}", "invalid", words))
    return tuple(found)


def repeat_executor(executor: Executor, count: int, faults: list[Fault]) -> tuple[Executor, ...]:
    """``count`` times what makes the change; of commands and recorded replies, one for each."""
    if EXECUTOR_KINDS[executor.kind].asked_anew:
        return (executor,) * count
    given = executor.commands or executor.artifacts
    if len(given) != count or executor.kind == "patch":
        words = f"--candidates {count} needs --agent, --model, or {count} times --exec or --reply, one for each candidate"
        faults.append(Fault(_PLACE, "ambiguous", words))
        return ()
    if executor.commands:
        return tuple(Executor(kind=executor.kind, commands=(command,)) for command in executor.commands)
    return tuple(Executor(kind=executor.kind, artifacts=(name,)) for name in executor.artifacts)


def contradictions(given: str | None, *, shards: int, others: bool) -> list[Fault]:
    """What is wrong with the option beside the others; ``others``: it is said elsewhere, too, who makes the change."""
    if given is None:
        return []
    faults = []
    least, most = BOUNDS.least or 0, BOUNDS.most or 0
    if not least <= count_of(given) <= most:
        faults.append(Fault(_PLACE, "invalid", f"--candidates: at least {least} and at most {most}"))
    if shards > 1:
        words = "--candidates and --shards: each candidate makes the whole change, which is not split then"
        faults.append(Fault(_PLACE, "ambiguous", words))
    if others and names_of(given):
        words = f"--candidates names who makes the change: leave out {MAKER_FLAGS}"
        faults.append(Fault(_PLACE, "ambiguous", words))
    return faults


def _executor(agent: str, model: str | None, *, fallback: bool) -> Executor:
    """Raises msgspec.ValidationError for a name that is none."""
    if not agent and model is None:
        raise msgspec.ValidationError("no name")
    fields = {"kind": "agent" if agent else "model", "agent": None if agent == ANY_AGENT else agent or None, "model": model}
    return msgspec.convert(fields | {"fallback": fallback and model is not None}, Executor)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit()
