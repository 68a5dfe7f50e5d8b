"""Completeness of a request before it can become a contract. Pure; the gatekeeper judges whether it is permitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Executor
from gatewright.errors import Fault, MalformedError, ScopeError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.kinds import KINDS
from gatewright.worker_role import has_answers, ways

INCOMPLETE = "request_incomplete"


def check_complete(request: RunRequest) -> None:
    """Check that ``request`` has everything that a contract needs.

    Raises:
        MalformedError: has a fault for everything that is missing or unusable, by JSON pointer into the request. Its code is
            ``request_incomplete`` when a field is missing, else that of the first fault.
    """
    faults = (*_missing(request), *_paths(request), *_artifacts(request), *_sharding(request))
    missing = [fault.pointer for fault in faults if fault.code == "required"]
    if missing:
        raise MalformedError(f"the request lacks {', '.join(missing)}", faults=faults, code=INCOMPLETE)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=faults[0].code)


def _missing(request: RunRequest) -> Iterator[Fault]:
    unread = KINDS[request.task_type].unread
    if not request.allowed_paths and "allowed_paths" not in unread:
        yield _required_fault("/allowed_paths", "the paths that may be changed")
    if not request.acceptance_tests and "acceptance_tests" not in unread:
        yield _required_fault("/acceptance_tests", "the commands that prove the change")
    if not ways(request) and "executor" not in unread:
        *others, last = EXECUTOR_KINDS
        yield _required_fault("/executor", f"how the change is made: {', '.join(others)} or {last}")
    for pointer, executor in _executors(request):
        if not has_answers(executor):
            yield _required_fault(
                f"{pointer}/{EXECUTOR_KINDS[executor.kind].answers}", f"at least one answer for the {executor.kind} executor"
            )


def _executors(request: RunRequest) -> Iterator[tuple[str, Executor]]:
    """Every executor of the request, and where in it it stands."""
    if request.executor is not None:
        yield "/executor", request.executor
    for number, executor in enumerate(request.candidates or ()):
        yield f"/candidates/{number}", executor


def _paths(request: RunRequest) -> Iterator[Fault]:
    for number, path in enumerate(request.allowed_paths):
        try:
            scope.check_allowed_path(path)
        except ScopeError as error:
            yield Fault(f"/allowed_paths/{number}", error.reason, error.message)


def _artifacts(request: RunRequest) -> Iterator[Fault]:
    names = Counter(artifact.name for artifact in request.artifacts)
    for number, artifact in enumerate(request.artifacts):
        if names[artifact.name] > 1:
            yield Fault(f"/artifacts/{number}/name", "duplicate_name", "another artifact has this name too")
    for pointer, executor in _executors(request):
        for number, name in enumerate(executor.artifacts):
            if name not in names:
                words = "is not the name of an artifact of the request"
                yield Fault(f"{pointer}/artifacts/{number}", "unknown_artifact", words)


def _sharding(request: RunRequest) -> Iterator[Fault]:
    executor = request.executor
    if request.sharding is None or request.sharding.count == 1 or executor is None:
        return
    if EXECUTOR_KINDS[executor.kind].answers != "commands":
        return
    for number, command in enumerate(executor.commands):
        if not scope.takes_paths(command):
            words = f"must take the word {scope.PATHS_WORD}, or every shard would do the whole work"
            yield Fault(f"/executor/commands/{number}", "paths_word_missing", words)


def _required_fault(pointer: str, what: str) -> Fault:
    return Fault(pointer, "required", f"is required: {what}")
