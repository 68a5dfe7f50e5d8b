"""Probes an agent, stores the result in this home, and checks for each use whether it is still valid.

A result is valid for one program with one entry of agents.json: when either changes, the agent must be probed again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatewright.agents.installation import InstalledAgent
from gatewright.agents.policy import AgentEntry
from gatewright.clock import Clock, timestamp
from gatewright.contracts.vocabulary import Shell
from gatewright.errors import DeniedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.services.worker.agents.probe.result import HELD, Admission, Step, StepResult, permitted, unfinished_error
from gatewright.services.worker.agents.probe.steps import SINGLE, asks, each_command, handshake
from gatewright.services.worker.agents.probe.trial import Bench

T = TypeVar("T")
#: For one step, of up to six trials: an agent that starts slowly on a busy host needs half a minute for each.
STEP_SECONDS: Final = 300.0
_MOST_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 20
#: Cache of program digests by file metadata: a program has hundreds of megabytes, a worker many tasks.
_DIGESTS: dict[tuple[str, int, int, int], str] = {}


async def probe(
    bench: Bench,
    agent: InstalledAgent,
    clock: Clock,
    on_result: Callable[[StepResult], None] = lambda _: None,
    *,
    seconds: float = STEP_SECONDS,
) -> Admission:
    """Run all steps in order, and report each result. Without a handshake the probe stops.

    Raises:
        UnavailableError: a step is not over after ``seconds``, possibly because of the host (``probe_unfinished``).
    """
    found: list[StepResult] = []

    def take(results: Iterable[StepResult]) -> None:
        for each in results:
            found.append(each)
            on_result(each)

    first, version = await _limit_step(seconds, "handshake", handshake(bench))
    take([first])
    if first.outcome == "passed":
        take(await _limit_step(seconds, "asks", asks(bench)))
        for name, step in SINGLE.items():
            take([await _limit_step(seconds, name, step(bench))])
        if any(each.step in HELD and each.outcome == "failed" for each in found):
            take([await _limit_step(seconds, "each_command", each_command(bench))])
    return admission_of(agent, version, found, timestamp(clock.now()))


async def _limit_step(seconds: float, name: Step, step: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await step
    except TimeoutError:
        raise unfinished_error(name, seconds) from None


def admission_of(agent: InstalledAgent, version: str, found: Sequence[StepResult], when: str) -> Admission:
    """Return the admission of ``agent`` in its current form; ``version`` is the one it reports."""
    good, may = permitted(found)
    return Admission(
        version="1",
        agent=agent.entry.name,
        agent_version=version or agent.version,
        package_version=agent.version,
        program_sha256=program_digest(agent.argv),
        entry_sha256=_entry_digest(agent.entry),
        probed_at=when,
        steps=tuple(found),
        admitted=good,
        permitted=may,
    )


def program_digest(program: Sequence[str]) -> str:
    """A digest over the files that the words of a command name, and the ``package.json`` that each belongs to."""
    whole = hashlib.sha256()
    for word in program:
        path = Path(word)
        if not path.is_absolute() or not path.is_file():
            continue
        package = next((above / "package.json" for above in path.parents if (above / "package.json").is_file()), None)
        for file in (path, *([package] if package else [])):
            whole.update(_digest_file(file).encode())
    return whole.hexdigest()


def keep(folder: Path, admission: Admission) -> Path:
    """Write it below ``folder``, in place of what was found of this agent before."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{admission.agent}.json"
    handle, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(admission), indent=2) + b"\n")
    Path(name).replace(place)
    return place


def read_admission(folder: Path, agent: InstalledAgent) -> Admission:
    """What was found of ``agent`` as it is now. Raises DeniedError (``agent_not_admitted``)."""
    name = agent.entry.name
    try:
        with (folder / f"{name}.json").open("rb") as file:
            found = read_json(file.read(_MOST_BYTES), Admission)
    except (OSError, UnreadableDocumentError) as error:
        raise _admission_refusal(name, "was not probed here") from error
    now = (name, program_digest(agent.argv), _entry_digest(agent.entry))
    if (found.agent, found.program_sha256, found.entry_sha256) != now:
        raise _admission_refusal(name, "is another one than was probed here")
    if not found.admitted:
        failed = ", ".join(f"{each.step}: {each.found}" for each in found.steps if each.outcome == "failed")
        raise _admission_refusal(name, f"did not pass the probe ({failed})")
    return found


def check_permitted(admission: Admission, *, shell: Shell, read_only: bool, names: Iterable[str]) -> Shell:
    """Return the shell permission of the agent for a task whose contract has ``shell``: the same, or a narrower one.

    An agent that does not ask with ``on-request`` but does with ``untrusted`` gets that: it asks more often. ``names`` are
    those of the files and folders of the repository that it would see.

    Raises:
        DeniedError: this agent may not do the task (``agent_not_permitted``).
    """
    may = admission.permitted
    fault = ""
    if shell == "on-request" and shell not in may.shells and "untrusted" in may.shells:
        shell = "untrusted"
    if shell not in may.shells:
        fault = f"`shell: {shell}` cannot be held: it may have contracts with {', '.join(may.shells)}"
    elif read_only and not may.read_only:
        fault = "it writes where it must not: no task that only reads is given to it"
    elif not may.own_settings and (found := sorted(SETTINGS.intersection(names))):
        fault = f"it obeys settings that a repository holds, and this one holds {', '.join(found)}"
    if fault:
        raise DeniedError(f"the agent {admission.agent} may not do this: {fault}", code="agent_not_permitted")
    return shell


#: Names of files and folders that coding agents read settings from.
SETTINGS: Final = frozenset(
    {".claude", ".mcp.json", ".gemini", ".qwen", ".opencode", "opencode.json", "opencode.jsonc", ".codex", ".env"}
)


def _admission_refusal(agent: str, why: str) -> DeniedError:
    return DeniedError(f"the agent {agent} {why}; run: gatewright agents probe {agent}", code="agent_not_admitted")


def _entry_digest(entry: AgentEntry) -> str:
    return hashlib.sha256(entry.model_dump_json().encode()).hexdigest()


def _digest_file(path: Path) -> str:
    try:
        status = path.stat()
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in _DIGESTS:
            whole = hashlib.sha256()
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    whole.update(data)
            _DIGESTS[key] = whole.hexdigest()
    except OSError as error:
        raise UnavailableError(f"the program {path} cannot be read: {error}", code="agent_not_installed") from error
    return _DIGESTS[key]
