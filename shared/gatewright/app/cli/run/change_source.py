"""The source of the change of ``gatewright run``: commands, files, standard input, or existing commits.

With ``--candidates`` several makers make the change independently. A number repeats the maker of the other options; commands
and replies have one maker each. A list names makers: an agent of agents.json, ``AGENT=MODEL`` for the agent with that model,
``=MODEL`` for a model that writes whole files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts.people.authors import author_line, commit_author, distinct_authors
from gatewright.contracts.vocabulary import MOST_AUTHORS, Executor, ExecutorName, Person, SourceBranch
from gatewright.errors import Fault, GitError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS, asked_first
from gatewright.git.host.branch_change import branch_change
from gatewright.order_form.rows import bounds_of
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row

PATCH = EXECUTOR_KINDS["patch"].artifact
#: The name of standard input.
STDIN = "-"
#: The first attempt, and the maximum retries of a contract.
_MOST_ATTEMPTS = 1 + int(row("max_retries").bounds.most or 0)
#: Default attempts of an agent or a model.
_ASKED = 3
#: Maximum number of candidates.
BOUNDS = bounds_of("candidates")
_PLACE = "/candidates"
#: The options that each name one maker; --model can also qualify --agent.
MAKER_FLAGS = ", ".join(row(kind.option).flag for name, kind in asked_first() if name != "model") + " and --head"


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """An executor with the bytes of its artifacts. ``candidates`` replace it if there are any."""

    executor: Executor
    attachments: tuple[tuple[str, bytes], ...] = ()
    candidates: tuple[Executor, ...] = ()

    @property
    def ways(self) -> tuple[Executor, ...]:
        """Return all makers of the change."""
        return self.candidates or (self.executor,)

    @property
    def attempts(self) -> int:
        """Return the number of attempts with an answer."""
        return min(_MOST_ATTEMPTS, max(_attempts(executor) for executor in self.ways))


def _attempts(executor: Executor) -> int:
    return _ASKED if EXECUTOR_KINDS[executor.kind].asked_anew else max(1, len(executor.commands), len(executor.artifacts))


@dataclass(frozen=True, slots=True)
class BranchAnswer:
    """Existing commits as one patch. ``author`` is set if all commits have the same one."""

    answer: ChangeSource
    source: SourceBranch
    author: Person | None
    subject: str


def read_answer(options: RunOptions, faults: list[Fault]) -> ChangeSource:
    """Read the answers that the options name. Unreadable ones are added to ``faults``. ``-`` is standard input, once."""
    for name, kind in EXECUTOR_KINDS.items():
        given = getattr(options, kind.option)
        if given and kind.answers == "commands":
            return ChangeSource(Executor(kind=name, commands=given))
        if given and kind.answers == "artifacts":
            files = given if isinstance(given, tuple) else (given,)
            return _read_files(name, kind.artifact, files, faults)
    return ChangeSource(Executor(kind="reply"))


def _read_files(name: ExecutorName, artifact: str, files: Sequence[str], faults: list[Fault]) -> ChangeSource:
    if sum(path == STDIN for path in files) > 1:
        faults.append(Fault("/artifacts", "ambiguous", "standard input (-) can be read once only"))
        return ChangeSource(Executor(kind=name))
    read = []
    for number, path in enumerate(files, start=1):
        try:
            content = sys.stdin.buffer.read() if path == STDIN else Path(path).expanduser().read_bytes()
        except OSError as error:
            faults.append(Fault("/artifacts", "unreadable", f"{path} cannot be read: {error.strerror}"))
        else:
            read.append((artifact.format(number), content))
    return ChangeSource(Executor(kind=name, artifacts=tuple(each for each, _ in read)), tuple(read))


def read_branch(repository: Path, branch: str, onto: str) -> BranchAnswer:
    """Return what ``branch`` of a local repository adds to ``onto``, squashed into one patch.

    Raises:
        GitError, MalformedError, PatchError: as ``branch_change`` does.
        MalformedError: also ``too_many_authors``.
    """
    change = branch_change(user_checkout(repository), branch, onto)
    (name, email), *others = authors = distinct_authors(change.authors)
    if len(authors) > MOST_AUTHORS:
        words = f"{len(authors)} people made its commits, and a run can name {MOST_AUTHORS}: land the branch in parts"
        raise MalformedError(words, code="too_many_authors")
    return BranchAnswer(
        answer=ChangeSource(Executor(kind="patch", artifacts=(PATCH,)), ((PATCH, change.patch),)),
        source=SourceBranch(
            name=branch,
            head=change.head,
            base=change.base,
            commits=change.commits,
            authors=tuple(author_line(*each) for each in authors),
        ),
        author=commit_author(name, email) if not others else None,
        subject=change.subject.strip() or f"the commits of {branch}",
    )


def read_commits(repository: Path, head: str, onto: str, span: str | None) -> SourceBranch:
    """Return the commits of the range ``span``, or those that ``head`` adds to ``onto``, from their merge base.

    Raises:
        GitError, MalformedError: as ``commits_of_range`` does; also ``branch_has_nothing``.
    """
    # Imported late: only a review needs it.
    from gatewright.evidence.verification.commits import commits_of_range

    checkout = user_checkout(repository)
    if span is None:
        tip, target = checkout.commit_named(head), checkout.commit_named(onto)
        base = checkout.objects.execute("merge-base", target, tip, ok=(0, 1)).decode("ascii").strip()
        if not base:
            raise GitError(f"{head} and {onto} have no commit in common", code="no_common_history")
        span = f"{base}..{tip}"
    commits = commits_of_range(checkout, span)
    if not commits:
        raise GitError(f"there is no commit in {span}", code="branch_has_nothing")
    first, last = (checkout.resolve(end) for end in span.split(".."))
    written = checkout.objects.execute(
        "log", "--no-show-signature", "--no-mailmap", "-z", "--format=%an%x00%ae", last, f"^{first}"
    )
    fields = written.decode("utf-8", "replace").split("\0")[:-1]
    made = {author_line(*each): None for each in zip(fields[::2], fields[1::2], strict=True)}
    authors = tuple(made) if len(made) <= MOST_AUTHORS else ()  # without them, no person can vote
    return SourceBranch(name=head or span, head=last, base=first, commits=len(commits), authors=authors)


def candidate_names(given: str | None) -> tuple[str, ...]:
    """Return the names of the option; none if it is a number or was not given."""
    return () if given is None or _is_number(given) else tuple(name.strip() for name in given.split(","))


def candidate_count(given: str | None) -> int:
    """Return the number of candidates of the option; 1 if it was not given."""
    if given is None:
        return 1
    return int(given[:6]) if _is_number(given) else len(candidate_names(given))


def named_candidates(given: str, model: str | None, faults: list[Fault], *, fallback: bool) -> tuple[Executor, ...]:
    """Return one executor for each name. An invalid name is added to ``faults``.

    Args:
        given: the value of the option.
        model: model for agents without one of their own.
        faults: receives the faults.
        fallback: permit other models in place of the named ones.
    """
    found = []
    for number, name in enumerate(candidate_names(given)):
        agent, with_model, named = name.partition("=")
        try:
            found.append(_executor(agent, named if with_model else model, fallback=fallback))
        except msgspec.ValidationError:
            words = f"--candidates {name!r}: an agent is called like codex, with a model codex=MODEL; a model alone is =MODEL"
            faults.append(Fault(f"{_PLACE}/{number}", "invalid", words))
    return tuple(found)


def repeat_executor(executor: Executor, count: int, faults: list[Fault]) -> tuple[Executor, ...]:
    """Repeat the executor ``count`` times; commands and recorded replies have one maker each."""
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


def candidate_contradictions(given: str | None, *, shards: int, others: bool) -> list[Fault]:
    """Return contradictions between the option and others. ``others``: another option names a maker, too."""
    if given is None:
        return []
    faults = []
    least, most = BOUNDS.least or 0, BOUNDS.most or 0
    if not least <= candidate_count(given) <= most:
        faults.append(Fault(_PLACE, "invalid", f"--candidates: at least {least} and at most {most}"))
    if shards > 1:
        words = "--candidates and --shards: each candidate makes the whole change, which is not split then"
        faults.append(Fault(_PLACE, "ambiguous", words))
    if others and candidate_names(given):
        words = f"--candidates names who makes the change: leave out {MAKER_FLAGS}"
        faults.append(Fault(_PLACE, "ambiguous", words))
    return faults


def _executor(agent: str, model: str | None, *, fallback: bool) -> Executor:
    """Build an executor. Raises msgspec.ValidationError for an invalid name."""
    if not agent and model is None:
        raise msgspec.ValidationError("no name")
    fields = {"kind": "agent" if agent else "model", "agent": None if agent == ANY_AGENT else agent or None, "model": model}
    return msgspec.convert(fields | {"fallback": fallback and model is not None}, Executor)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit()
