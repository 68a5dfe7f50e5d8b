"""From the options of ``gatewright run`` to a run request.

All that is missing or wrong is said at once, before anything is started.
"""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewright.cli.home import find_repository
from gatewright.clock import new_id
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    Budget,
    ChangeKind,
    Environment,
    Executor,
    LandingMode,
    PolicyPack,
    Priority,
    Repository,
    Scope,
    Sharding,
    TimeoutRetry,
)
from gatewright.errors import Fault, MalformedError

EXAMPLE = 'gatewright run "rename parse to read" --allow src --exec "python rename.py" --test "python -m pytest -q"'
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")  # noqa: TID251 - the operator's own text
#: ``host:path`` or ``user@host:path``, as git understands it.
_SCP = re.compile(r"[A-Za-z0-9._@-]+:(?!//)")  # noqa: TID251 - the operator's own text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was given on the command line, unchecked."""

    request: str
    repo: str | None = None
    ref: str = "HEAD"
    allow: tuple[str, ...] = ()
    allow_protected: tuple[str, ...] = ()
    allow_dependencies: bool = False
    allow_kinds: tuple[ChangeKind, ...] = ()
    commands: tuple[str, ...] = ()
    patch: Path | None = None
    replies: tuple[Path, ...] = ()
    tests: tuple[str, ...] = ()
    shards: int = 1
    env: tuple[Path, ...] = ()
    land: LandingMode = "branch"
    target_ref: str | None = None
    policy_pack: PolicyPack = "low"
    priority: Priority = "normal"
    max_retries: int | None = None
    timeout: float = 300.0
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_iterations: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked request whose attachments are still to be put where the gatekeeper finds them."""

    request: RunRequest
    attachments: tuple[tuple[str, bytes], ...]


def prepare(options: RunOptions, here: Path) -> Prepared:
    """The request that the options ask for, for someone who stands in ``here``.

    Raises MalformedError (code ``invalid_input``) with one fault for everything that is missing or wrong.
    """
    faults = [*_missing(options), *_contradictions(options)]
    repository = _repository(options, here, faults)
    attachments = _attachments(options, faults)
    prefix = _prefix(options, here, faults)
    if faults:
        raise MalformedError("this cannot be run", faults=tuple(faults), code="invalid_input")
    executor = _executor(options, tuple(name for name, _ in attachments))
    retries = options.max_retries if options.max_retries is not None else _answers(executor) - 1
    request = RunRequest(
        request=options.request,
        repository=Repository(url=repository, target_ref=options.target_ref, landing=options.land),
        requested_by=user_name(),
        baseline_ref=options.ref,
        allowed_paths=options.allow,
        acceptance_tests=tuple(
            AcceptanceTest(name=f"test-{number}", cmd=command, must_pass=True)
            for number, command in enumerate(options.tests, start=1)
        ),
        executor=executor,
        sharding=Sharding(count=options.shards),
        environment=Environment(prefix=str(prefix)) if prefix else None,
        scope=_scope(options),
        budget=_budget(options),
        policy_pack=options.policy_pack,
        priority=options.priority,
        timeout_retry=TimeoutRetry(timeout_sec=options.timeout, max_retries=retries, retry_backoff_sec=0),
        idempotency_key=new_id(),
    )
    return Prepared(request, attachments)


def _budget(options: RunOptions) -> Budget | None:
    """What the run may use up; None when nothing is limited."""
    budget = Budget(
        wall_sec=options.max_seconds,
        tokens=options.max_tokens,
        cost_usd=options.max_cost,
        iterations=options.max_iterations,
    )
    return None if budget == Budget() else budget


def _scope(options: RunOptions) -> Scope | None:
    """What is opened beyond plain edits; None when nothing is."""
    scope = Scope(
        allow_protected_paths=options.allow_protected,
        allow_dependency_change=options.allow_dependencies,
        allow=options.allow_kinds,
    )
    return None if scope == Scope() else scope


def with_artifacts(request: RunRequest, artifacts: tuple[Artifact, ...]) -> RunRequest:
    """The request with its attachments in place."""
    import msgspec

    return msgspec.structs.replace(request, artifacts=artifacts)


def _missing(options: RunOptions) -> list[Fault]:
    faults = []
    if not options.request.strip():
        faults.append(Fault("/request", "missing", 'say what is to be done: gatewright run "REQUEST" ...'))
    if not options.allow:
        faults.append(Fault("/allowed_paths", "missing", "say which paths may change: --allow PATH (repeatable)"))
    if not options.tests:
        faults.append(Fault("/acceptance_tests", "missing", "say which command proves the change: --test CMD (repeatable)"))
    if not (options.commands or options.patch or options.replies):
        faults.append(Fault("/executor", "missing", "say how the change is made: --exec CMD, --patch FILE or --reply FILE"))
    return faults


def _contradictions(options: RunOptions) -> list[Fault]:
    faults = []
    if sum(map(bool, (options.commands, options.patch, options.replies))) > 1:
        faults.append(Fault("/executor", "ambiguous", "give only one of --exec, --patch and --reply"))
    if options.land == "target" and not options.target_ref:
        faults.append(Fault("/repository/target_ref", "missing", "--land target needs --target-ref refs/heads/NAME"))
    if len(options.env) > 1:
        faults.append(Fault("/environment", "ambiguous", "a run sees one environment: give --env once"))
    return faults


def _repository(options: RunOptions, here: Path, faults: list[Fault]) -> str:
    given = options.repo
    if given is None:
        top = find_repository(here)
        if top is None:
            faults.append(Fault("/repository/url", "missing", f"{here} is not in a git repository: give --repo PATH or URL"))
        return str(top)
    path = Path(given).expanduser()
    if not path.exists() and (_URL.match(given) or _SCP.match(given)):
        return given
    path = Path(os.path.abspath(here / path))  # noqa: PTH100 - absolute and without `..`, but symbolic links stay as given
    if not path.is_dir():
        faults.append(Fault("/repository/url", "not_found", f"there is no repository at {path}"))
    elif not ((path / ".git").exists() or (path / "objects").is_dir()):
        top = find_repository(path)
        hint = f"; its top is {top}" if top else ""
        faults.append(Fault("/repository/url", "not_a_repository", f"{path} is not the top of a git repository{hint}"))
    return str(path)


def _attachments(options: RunOptions, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    files = [("patch.diff", options.patch)] if options.patch else []
    files += [(f"reply-{number}", path) for number, path in enumerate(options.replies, start=1)]
    read = []
    for name, path in files:
        try:
            read.append((name, path.read_bytes()))
        except OSError as error:
            faults.append(Fault("/artifacts", "unreadable", f"{path} cannot be read: {error.strerror}"))
    return tuple(read)


def _prefix(options: RunOptions, here: Path, faults: list[Fault]) -> Path | None:
    if not options.env:
        return None
    prefix = environment_prefix(options.env[0], here)
    if not prefix.is_dir():
        faults.append(Fault("/environment/prefix", "not_found", f"there is no folder {prefix}"))
    return prefix


def environment_prefix(given: Path, here: Path) -> Path:
    """The absolute form under which an environment is offered and asked for: links resolved, so that both agree."""
    return (here / given.expanduser()).resolve()


def _executor(options: RunOptions, names: tuple[str, ...]) -> Executor:
    if options.commands:
        return Executor(kind="command", commands=options.commands)
    kind: Literal["patch", "reply"] = "patch" if options.patch else "reply"
    return Executor(kind=kind, artifacts=names)


def _answers(executor: Executor) -> int:
    """How many attempts the executor has an answer for; each one after the first is a retry."""
    return min(11, max(len(executor.commands), len(executor.artifacts)))


def user_name() -> str:
    """Who is at work here, for records; it decides nothing."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"
