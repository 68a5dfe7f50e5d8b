"""From the options of ``gatewright run`` to a run request.

All faults are reported together, before anything is started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.run.change_source import (
    MAKER_FLAGS,
    BranchAnswer,
    ChangeSource,
    candidate_contradictions,
    candidate_count,
    candidate_names,
    in_repository,
    named_candidates,
    names_test_file,
    read_answer,
    read_branch,
    read_commits,
    read_documents,
    read_hidden,
    read_mounts,
    read_provided,
    repeat_executor,
)
from gatewright.app.cli.run.preflight import AUTO_ADVICE, missing_agent, missing_key, missing_programs
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.cli.user_git import author, person_names, user_checkout, user_name
from gatewright.artifacts import PROVIDED, RESULT
from gatewright.clock import new_id
from gatewright.contracts import EvidenceBundle, RunRequest, codec
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    AuditRequirement,
    Budget,
    CommandLimits,
    CoverageRequirement,
    Environment,
    Executor,
    FurtherEnvironment,
    Repository,
    Scope,
    Sharding,
    SourceBranch,
    TimeoutRetry,
)
from gatewright.errors import DeniedError, Fault, GatewrightError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS, asked_first
from gatewright.git.host.identity import PROTOCOLS
from gatewright.git.refs import check_landing_ref, parse_url
from gatewright.git.tracked import refuse_tracked_folder
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row, values_below
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run
from gatewright.run.states import QUEUED
from gatewright.sandbox.environments import Environments, ShownFolder

EXAMPLE = 'gatewright run "rename parse to read" --allow src --exec "python rename.py" --test "python -m pytest -q"'
_REQUIREMENT = re.compile(row("requirement").bounds.pattern)  # noqa: TID251 - the operator's own text; it looks ahead
#: Begins the paragraph about the earlier run, which a later round replaces.
_EARLIER: Final = "\n\nAn earlier run of this request did not land: "
#: Name of the artifact with given findings.
_FINDINGS: Final = "findings"
T = TypeVar("T")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")  # noqa: TID251 - the operator's own text
#: ``host:path`` or ``user@host:path``, as git understands it.
_SCP = re.compile(r"[A-Za-z0-9._@-]+:(?!//)")  # noqa: TID251 - the operator's own text


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked request whose attachments are not yet stored for the gatekeeper."""

    request: RunRequest
    attachments: tuple[tuple[str, bytes], ...]


def prepare(
    options: RunOptions,
    here: Path,
    *,
    on_this_host: bool = False,
    propose: bool = False,
    plays: bool = False,
    environment_follows: bool = False,
) -> Prepared:
    """Build the request of the options.

    Args:
        options: the options as given.
        here: current folder of the user.
        on_this_host: the commands will run on this host.
        propose: paths, tests and executor may be missing; the pm proposes them.
        plays: recorded calls are replayed, so no key is needed.
        environment_follows: the environments are made later, and added by ``with_shown``.

    Raises:
        MalformedError: ``invalid_input``, with one fault for each missing or wrong option.
    """
    faults = [*(_missing_options(options) if not propose else ()), *_contradictions(options)]
    repository = _find_repository(options, here, faults)
    options = _with_exact_refs(options, repository, faults)
    allow = tuple(in_repository(path, repository, here, "/allowed_paths", faults) for path in options.allow)
    opened = "/scope/allow_protected_paths"
    tests = tuple(in_repository(path, repository, here, opened, faults) for path in options.allow_tests)
    proposed = tuple(in_repository(path, repository, here, "/allowed_paths", faults) for path in options.proposed)
    named = () if faults else tuple(p for p in allow if p not in proposed and names_test_file(p, repository, options.ref))
    options = replace(options, allow=allow, allow_tests=tuple(dict.fromkeys((*tests, *named))), proposed=proposed)
    kind = KINDS[options.task_type]
    answer = _source_of(options, here, faults)
    branch = _branch(options, repository, faults) if kind.lands else None
    commits = _reviewed_commits(options, repository, faults) if kind.reviews and not kind.works else None
    provided = read_provided(options.provide, repository, here, faults)
    hidden = read_hidden(options.hidden_files, here, faults)
    shown = Environments(()) if environment_follows else _shown_environments(options, repository, here, faults)
    target = _target(options, faults)
    if on_this_host and (_is_asked(options) or answer.executor.kind == "model"):
        faults += _not_here(answer, plays=plays)
    if on_this_host and not environment_follows and (kind.lands or kind.tests):
        faults += _programs_not_shown(options, shown)
    if faults:
        raise MalformedError("this cannot be run", faults=tuple(faults), code="invalid_input")
    answer = branch.answer if branch is not None else answer
    retries = options.max_retries if options.max_retries is not None else answer.attempts - 1 if kind.lands else 0
    person = author(Path(repository) if _local(repository) else here)
    request = RunRequest(
        **values_below(options, "")
        | {
            "request": options.request if branch is None else options.request.strip() or branch.subject,
            # The gate distinguishes permission to change from being a test; for a person it is one question.
            "allowed_paths": tuple(dict.fromkeys((*options.allow, *options.allow_tests))),
            **({} if kind.lands else _without_change(options, commits)),
            "acceptance_tests": (
                *_acceptance_tests("test", options.tests, options),
                *_acceptance_tests("hidden", options.hidden_tests),
            ),
        },
        repository=Repository(url=repository, target_ref=target, landing=options.land),
        requested_by=user_name(),
        executor=answer.executor if (kind.searches or (kind.lands and ways_named(options))) and not answer.candidates else None,
        candidates=answer.candidates or None,
        sharding=Sharding(**values_below(options, "sharding")) if kind.plans else None,
        environment=_environment(shown),
        scope=_unless_empty(Scope(**values_below(options, "scope")), Scope()),
        budget=_unless_empty(Budget(**values_below(options, "budget")), Budget()),
        limits=_unless_empty(CommandLimits(**values_below(options, "limits")), CommandLimits()),
        timeout_retry=TimeoutRetry(timeout_sec=options.timeout, max_retries=retries, retry_backoff_sec=0),
        author=((branch.author if branch is not None else None) or person) if kind.lands else None,
        source_branch=branch.source if branch is not None else commits,
        ordered_by=person_names(person),
        idempotency_key=new_id(),
    )
    written = tuple((f"{PROVIDED}{path}", content) for path, content in options.written)
    return Prepared(request, (*answer.attachments, *provided, *written, *hidden))


def _without_change(options: RunOptions, commits: SourceBranch | None) -> dict[str, Any]:
    """Return the fields of a request of another kind than a change."""
    fields: dict[str, Any] = {"task_type": options.task_type}
    if options.task_type in {"PLAN", "SEARCH"}:
        return fields
    about = commits.name if commits is not None else options.ref
    fields |= {"allowed_paths": (), "request": f"{KINDS[options.task_type].name.capitalize()} {about}"}
    return fields | ({"baseline_ref": commits.base} if commits is not None else {})


def _reviewed_commits(options: RunOptions, repository: str, faults: list[Fault]) -> SourceBranch | None:
    """Return the commits to review."""
    if faults:
        return None
    if not _local(repository):
        faults.append(Fault("/source_branch", "not_local", "a review needs a repository on this host: clone it first"))
        return None
    try:
        return read_commits(Path(repository), options.head or "", options.ref, options.span)
    except GatewrightError as error:
        faults.append(Fault("/source_branch", error.reason, error.message))
        return None


def with_shown(prepared: Prepared, options: RunOptions, here: Path, elsewhere: Collection[Path] = ()) -> Prepared:
    """Return ``prepared`` with the environments and version files of ``options``, which exist now; those of ``elsewhere`` on
    the hosts of the roles. Raises MalformedError."""
    faults: list[Fault] = []
    shown = _shown_environments(options, prepared.request.repository.url, here, faults, elsewhere)
    faults += _programs_not_shown(options, shown)
    if faults:
        raise MalformedError("this cannot be run", faults=tuple(faults), code="invalid_input")
    written = tuple((f"{PROVIDED}{path}", content) for path, content in options.written)
    request = msgspec.structs.replace(prepared.request, environment=_environment(shown))
    return Prepared(request, (*prepared.attachments, *written))


def again_request(run: Run, requested_by: str, ordered_by: tuple[str, ...]) -> RunRequest:
    """Return the request of a new round of ``run``, which has ended without landing or waits in a merge queue.

    It starts from the target where the change was to go there, and else from where the request started. Its words name the
    reason for which the earlier run did not land, so that an agent can take that into account. The people of both rounds
    ordered it, and none of them may approve it.

    Raises:
        MalformedError: the run landed, still works, or was ordered by a contract (``invalid_input``).
    """
    request = run.request
    if request is None:
        raise _no_round(run, "was ordered by a contract: submit that contract again with a new baseline")
    if run.state == QUEUED:
        why = "waits in the merge queue, and this run replaces it"
    elif not run.ended:
        raise _no_round(run, "has not ended")
    elif run.failure is None:
        raise _no_round(run, "landed" if run.kind.lands else "succeeded")
    else:
        why = f"ended with {run.failure.code}: {run.failure.message}"
    repository = request.repository
    asked = request.request
    # The text of a pull request may hold these words, too: only the paragraph that a repetition added is replaced.
    if request.again is not None and _EARLIER in asked:
        asked = asked.rpartition(_EARLIER)[0]
    return msgspec.structs.replace(
        request,
        request=f"{asked}{_EARLIER}{run.run_id} {why}" if run.kind.lands else asked,
        baseline_ref=(repository.moves_target and repository.target_ref) or request.baseline_ref,
        requested_by=requested_by,
        ordered_by=tuple(dict.fromkeys((*request.ordered_by, *ordered_by))),
        again=run.run_id,
        idempotency_key=new_id(),
    )


def result_attachment(run: Run, findings: EvidenceBundle | None = None) -> tuple[str, bytes]:
    """Return the result document of a run that succeeded and landed nothing, as an attachment.

    ``findings``: those of a search.

    Raises:
        MalformedError: the run made none, has expired or did not succeed (``invalid_input``).
    """
    document = findings if run.kind.searches else run.result_document
    if document is None or run.status != "SUCCESS":
        words = f"{run.run_id} is a {run.kind.name} run that is {run.status}: name a successful plan, review, test or search"
        raise MalformedError("this cannot be run", faults=(Fault("/artifacts", "invalid", words),), code="invalid_input")
    return f"{RESULT}{run.run_id}", codec.encode(document)


def _no_round(run: Run, words: str) -> MalformedError:
    fault = Fault("/again", "invalid", f"{run.run_id} {words}")
    return MalformedError("this cannot be run", faults=(fault,), code="invalid_input")


def _programs_not_shown(options: RunOptions, shown: Environments) -> tuple[Fault, ...]:
    if not all(folder.path.is_dir() for folder in shown.folders) or _decided_later(shown):
        return ()
    return tuple(missing_programs(options.commands, (*options.tests, *options.hidden_tests), shown))


def _decided_later(shown: Environments) -> bool:
    """Return whether the operator's profiles may add to the visible system; the contract and the roles decide that later."""
    # Imported late: only a run without an environment needs it.
    from gatewright.profiles.policy import ENVIRONMENTS_FILE

    if shown.folders:
        return False
    return any(each.prefix or each.image for each in ENVIRONMENTS_FILE.load(AgentSettings.load().policies).policy.profiles)


def _acceptance_tests(name: str, commands: tuple[str, ...], options: RunOptions | None = None) -> tuple[AcceptanceTest, ...]:
    """Return the tests, of which the last one writes the files that ``options`` declare."""
    tests = tuple(
        AcceptanceTest(name=f"{name}-{number}", cmd=command, must_pass=True, hidden=name == "hidden")
        for number, command in enumerate(commands, start=1)
    )
    if options is None or not tests:
        return tests
    coverage, audit = _coverage(options.coverage or ""), _audit(options.audit or "")
    return (*tests[:-1], msgspec.structs.replace(tests[-1], coverage=coverage, audit=audit))


def _coverage(given: str) -> CoverageRequirement | None:
    """Return the requirement that ``FILE=PERCENT`` means; None if it means none."""
    file, _, percent = given.rpartition("=")
    try:
        found = msgspec.convert({"file": file, "changed_lines_percent": int(percent)}, CoverageRequirement)
    except (ValueError, msgspec.ValidationError):
        return None
    return found if found.read_as is not None else None


def _audit(given: str) -> AuditRequirement | None:
    """Return the requirement that ``FILE=LIMIT`` means; None if it means none."""
    file, _, limit = given.rpartition("=")
    try:
        name = "min_score" if file.endswith(".json") else "max_new"
        found = msgspec.convert({"file": file, name: float(limit) if name == "min_score" else int(limit)}, AuditRequirement)
    except (ValueError, msgspec.ValidationError):
        return None
    return found if not found.fault else None


def _source_of(options: RunOptions, here: Path, faults: list[Fault]) -> ChangeSource:
    """Return the source of the change, or of the findings of a search."""
    kind = KINDS[options.task_type]
    if kind.lands:
        return _change_source(options, faults)
    if not kind.searches:
        return ChangeSource(Executor(kind="command"))
    documents = read_documents(options.documents, here, faults)
    if options.findings is None:
        return ChangeSource(Executor(kind="model", model=options.model, fallback=options.fallback), documents)
    given = read_documents((options.findings,), here, faults)
    findings = tuple((_FINDINGS, content) for _, content in given)
    return ChangeSource(Executor(kind="reply", artifacts=(_FINDINGS,)), (*documents, *findings))


def _change_source(options: RunOptions, faults: list[Fault]) -> ChangeSource:
    """Return the source of the change: an agent or model, an existing answer, or several of them."""
    given = options.candidates
    if given is None:
        return _one_answer(options, faults)
    if candidate_names(given):
        candidates = named_candidates(given, options.model, faults, fallback=options.fallback)
        return ChangeSource(Executor(kind="agent"), candidates=candidates)
    answer = _one_answer(options, faults)
    if not ways_named(options) or options.head is not None:
        return answer
    return replace(answer, candidates=repeat_executor(answer.executor, candidate_count(given), faults))


def _one_answer(options: RunOptions, faults: list[Fault]) -> ChangeSource:
    if options.agent is not None:
        return ChangeSource(
            Executor(
                kind="agent",
                agent=None if options.agent == ANY_AGENT else options.agent,
                model=options.model,
                fallback=options.fallback,
            )
        )
    if options.model is not None:
        return ChangeSource(Executor(kind="model", model=options.model, fallback=options.fallback))
    return read_answer(options, faults)


def _unless_empty(value: T, empty: T) -> T | None:
    """Return ``value``; None if it is empty."""
    return None if value == empty else value


def with_artifacts(request: RunRequest, artifacts: tuple[Artifact, ...]) -> RunRequest:
    """Return the request with its stored attachments."""
    return msgspec.structs.replace(request, artifacts=artifacts)


def _missing_options(options: RunOptions) -> list[Fault]:
    faults = []
    kind = KINDS[options.task_type]
    if (kind.plans or kind.searches) and not (options.request.strip() or options.head):
        faults.append(Fault("/request", "missing", 'describe the change or question: gatewright run "REQUEST" ...'))
    if kind.reviews and not kind.works and bool(options.head) == bool(options.span):
        faults.append(Fault("/source_branch", "missing", "name what to review: either --head BRANCH or --range A..B"))
    if not (options.allow or options.allow_tests or "allowed_paths" in kind.unread):
        faults.append(Fault("/allowed_paths", "missing", "name the paths that may change: --allow PATH (repeatable)"))
    if not options.tests and "acceptance_tests" not in kind.unread:
        faults.append(Fault("/acceptance_tests", "missing", "name a command that proves the change: --test CMD (repeatable)"))
    if not ways_named(options) and kind.lands:
        makers = (row(kind.option) for _, kind in asked_first())
        named = ", ".join(f"{each.flag} {(each.metavar or '').partition('|')[0]}" for each in makers)
        words = f"choose how the change is made: {named}, --head BRANCH, or --candidates NAME,NAME"
        faults.append(Fault("/executor", "missing", words))
    return faults


def ways_named(options: RunOptions) -> int:
    """Return how many ways to make the change were named; --model qualifies --agent, or is one by itself."""
    return sum(map(bool, (_is_asked(options), *_given_answers(options), options.head)))


def _is_asked(options: RunOptions) -> bool:
    """Return whether an agent or model is named that makes the change."""
    kinds = (kind for kind in EXECUTOR_KINDS.values() if kind.asked_anew)
    return any(getattr(options, kind.option) for kind in kinds) or bool(candidate_names(options.candidates))


def _given_answers(options: RunOptions) -> list[object]:
    """Return the answers in the options, for each kind of executor that needs some."""
    return [getattr(options, kind.option) for kind in EXECUTOR_KINDS.values() if not kind.asked_anew]


def _contradictions(options: RunOptions) -> list[Fault]:
    others = (options.agent, *_given_answers(options), options.head)
    faults = candidate_contradictions(options.candidates, shards=options.shards, others=any(others))
    if options.candidates is not None and options.head is not None:
        faults.append(Fault("/candidates", "ambiguous", "--head is one change that is there already: nothing is to choose"))
    if ways_named(options) > 1:
        faults.append(Fault("/executor", "ambiguous", f"give only one of {MAKER_FLAGS}"))
    if options.fallback and options.model is None and "=" not in (options.candidates or ""):
        words = "--fallback replaces --model NAME when that fails: name a model, or leave it out"
        faults.append(Fault("/executor/fallback", "missing", words))
    if options.interactive and options.agent is None:
        faults.append(Fault("/interactive", "invalid", "--interactive answers what an agent asks: give --agent NAME"))
    if options.inputs and ways_named(options) and not _is_asked(options):
        faults.append(Fault("/artifacts", "invalid", "--input is read by an agent or a model: give --agent or --model"))
    if options.land in {"target", "queue"} and not options.target_ref:
        words = f"--land {options.land} needs --target-ref BRANCH"
        faults.append(Fault("/repository/target_ref", "missing", words))
    if options.coverage is not None and not (options.tests and _coverage(options.coverage)):
        words = "--coverage needs a --test and FILE=PERCENT, FILE in the repository and named *.xml, *.info, *.out or *.json"
        faults.append(Fault("/acceptance_tests", "invalid", words))
    if options.audit is not None and not (options.tests and _audit(options.audit)):
        words = "--audit needs a --test and FILE=LIMIT: *.sarif or *.xml and the most new findings, *.json and the lowest score"
        faults.append(Fault("/acceptance_tests", "invalid", words))
    for number, requirement in enumerate(options.requirement):
        if _REQUIREMENT.fullmatch(requirement) is None:
            words = f"--requirement {requirement}: an id is PROJECT-CATEGORY-NUMBER, such as PAY-SEC-007"
            faults.append(Fault(f"/requirement_ids/{number}", "invalid", words))
    return faults


def _find_repository(options: RunOptions, here: Path, faults: list[Fault]) -> str:
    given = options.repo
    if given is None:
        top = find_repository(here)
        if top is None:
            faults.append(Fault("/repository/url", "missing", f"{here} is not in a git repository: give --repo PATH or URL"))
        return str(top)
    path = Path(given).expanduser()
    if not path.exists() and (_URL.match(given) or _SCP.match(given)):
        try:
            parse_url(given, PROTOCOLS)
        except MalformedError as error:
            # The request is stored, so an address with a password must not be in it.
            faults.append(Fault("/repository/url", error.reason, f"--repo: {error.message}"))
            return ""
        return given
    path = Path(os.path.abspath(here / path))  # noqa: PTH100 - absolute and without `..`, but symbolic links stay as given
    if not path.is_dir():
        faults.append(Fault("/repository/url", "not_found", f"there is no repository at {path}"))
    elif not ((path / ".git").exists() or (path / "objects").is_dir()):
        top = find_repository(path)
        hint = f"; its top is {top}" if top else ""
        faults.append(Fault("/repository/url", "not_a_repository", f"{path} is not the top of a git repository{hint}"))
    return str(path)


def _with_exact_refs(options: RunOptions, repository: str, faults: list[Fault]) -> RunOptions:
    """Resolve --ref and --head to names that the gatekeeper finds: only the user's own git knows some spellings."""
    if not _local(repository) or any(fault.pointer == "/repository/url" for fault in faults):
        return options
    names = {"ref": options.ref, "head": options.head}
    for (option, name), place in zip(names.items(), ("/baseline_ref", "/source_branch"), strict=True):
        try:
            names[option] = name and user_checkout(Path(repository)).exact_ref(name)
        except GatewrightError as error:
            faults.append(Fault(place, error.reason, f"--{option} {name}: {error.message}"))
    return replace(options, ref=names["ref"] or options.ref, head=names["head"])


def _local(repository: str) -> bool:
    return repository.startswith("/") and Path(repository).is_dir()


def _branch(options: RunOptions, repository: str, faults: list[Fault]) -> BranchAnswer | None:
    if options.head is None or faults:
        return None
    if not _local(repository):
        faults.append(Fault("/executor", "not_local", "--head takes a branch of a repository on this host: clone it first"))
        return None
    try:
        return read_branch(Path(repository), options.head, options.ref)
    except GatewrightError as error:
        hint = "; give --ref the branch that it should come on" if error.reason == "branch_has_nothing" else ""
        faults.append(Fault("/source_branch", error.reason, f"--head {options.head}: {error.message}{hint}"))
        return None


def _target(options: RunOptions, faults: list[Fault]) -> str | None:
    """Return the full name of --target-ref; ``main`` is ``refs/heads/main``."""
    given = options.target_ref
    if not given:
        return given
    full = given if given.startswith("refs/") else f"refs/heads/{given}"
    try:
        return check_landing_ref(full)
    except MalformedError as error:
        faults.append(Fault("/repository/target_ref", error.reason, f"--target-ref: {error.message}"))
        return None


def _not_here(answer: ChangeSource, *, plays: bool) -> Iterator[Fault]:
    """Yield a fault for each agent and key that the run needs and this host does not have."""
    for executor in dict.fromkeys(answer.ways):
        if executor.kind == "agent":
            yield from missing_agent(executor.agent, executor.model, plays=plays)
        elif not plays:
            yield from missing_key(executor.model)


def _shown_environments(
    options: RunOptions, repository: str, here: Path, faults: list[Fault], elsewhere: Collection[Path] = ()
) -> Environments:
    """Return the environments and folders of --env and --mount, in this order."""
    folders = []
    for given in options.env:
        if given in elsewhere:
            folders.append(ShownFolder(given))
            continue
        prefix = environment_prefix(given, here)
        if not prefix.is_dir():
            faults.append(Fault("/environment/prefix", "not_found", f"there is no folder {prefix}; {AUTO_ADVICE}"))
        try:
            # Unresolved: resolving would hide a link that the repository tracks.
            refuse_tracked_folder(here / given.expanduser())
        except DeniedError as error:
            faults.append(Fault("/environment/prefix", error.reason, error.message))
        folders.append(ShownFolder(prefix))
    folders += read_mounts(options.mount, repository, here, faults)
    return Environments(tuple(dict.fromkeys(folders)))


def _environment(shown: Environments) -> Environment | None:
    """Return the environments as fields of the request; None for none."""
    if not shown.folders:
        return None
    first, *others = shown.folders
    further = tuple(FurtherEnvironment(prefix=str(each.path), at=each.at or None) for each in others)
    return Environment(prefix=str(first.path), at=first.at or None, others=further)


def environment_prefix(given: Path, here: Path) -> Path:
    """Return the absolute path under which an environment is offered and requested, with links resolved so that both agree."""
    return (here / given.expanduser()).resolve()
