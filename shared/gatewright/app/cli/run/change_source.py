"""Where the change of ``gatewright run`` comes from: commands, files, standard input, or commits that exist already.

With ``--candidates`` several make the change, each for itself. A number: so many of what the other options name; of commands
and replies, one each. Or a list of names: an agent of agents.json, ``AGENT=MODEL`` for it with that model, ``=MODEL`` for a
model that is asked for whole files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.people.identities import person_key
from gatewright.contracts.vocabulary import MOST_AUTHORS, Executor, ExecutorName, Person, SourceBranch
from gatewright.errors import Fault, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS, asked_first
from gatewright.git.host.branch_change import branch_change
from gatewright.order_form.rows import bounds_of
from gatewright.order_form.run_options import ANY_AGENT, RunOptions, row

PATCH = EXECUTOR_KINDS["patch"].artifact
#: The name that stands for standard input.
STDIN = "-"
#: The first attempt, and the most retries that a contract takes.
_MOST_ATTEMPTS = 1 + int(row("max_retries").bounds.most or 0)
#: How often an agent or a model is asked, where the user does not say.
_ASKED = 3
#: How many there may be.
BOUNDS = bounds_of("candidates")
_PLACE = "/candidates"
#: The options that each name one maker; --model says more about --agent.
MAKER_FLAGS = ", ".join(row(kind.option).flag for name, kind in asked_first() if name != "model") + " and --head"


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """An executor, and the bytes of the artifacts that it names; ``candidates`` stand in its place where there are any."""

    executor: Executor
    attachments: tuple[tuple[str, bytes], ...] = ()
    candidates: tuple[Executor, ...] = ()

    @property
    def ways(self) -> tuple[Executor, ...]:
        """Whatever makes the change."""
        return self.candidates or (self.executor,)

    @property
    def attempts(self) -> int:
        """How many attempts it has an answer for."""
        return min(_MOST_ATTEMPTS, max(_attempts(executor) for executor in self.ways))


def _attempts(executor: Executor) -> int:
    return _ASKED if EXECUTOR_KINDS[executor.kind].asked_anew else max(1, len(executor.commands), len(executor.artifacts))


@dataclass(frozen=True, slots=True)
class BranchAnswer:
    """Commits that exist, as one patch; ``author`` is there when they all have the same."""

    answer: ChangeSource
    source: SourceBranch
    author: Person | None
    subject: str


def read_answer(options: RunOptions, faults: list[Fault]) -> ChangeSource:
    """The answers that the options bring; what cannot be read is added to ``faults``. ``-`` is standard input, once."""
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
    """What ``branch`` of a repository on this host adds to ``onto``, squashed into one patch.

    Raises GitError, MalformedError, PatchError as ``branch_change`` does, and MalformedError (``too_many_authors``).
    """
    change = branch_change(user_checkout(repository), branch, onto)
    (name, email), *others = authors = _distinct(change.authors)
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
            authors=tuple(f"{name[:200]} <{email[:300]}>" for name, email in authors),
        ),
        author=commit_author(name, email) if not others else None,
        subject=change.subject.strip() or f"the commits of {branch}",
    )


def _distinct(authors: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The people among these names and addresses: of several spellings of one person the first."""
    by_person: dict[str, tuple[str, str]] = {}
    for name, email in authors:
        by_person.setdefault(person_key(email) or person_key(name), (name, email))
    return list(by_person.values())


def candidate_names(given: str | None) -> tuple[str, ...]:
    """The names that the option lists; none where it is a number, or was not given."""
    return () if given is None or _is_number(given) else tuple(name.strip() for name in given.split(","))


def candidate_count(given: str | None) -> int:
    """How many candidates the option asks for; 1 where it was not given."""
    if given is None:
        return 1
    return int(given[:6]) if _is_number(given) else len(candidate_names(given))


def named_candidates(given: str, model: str | None, faults: list[Fault], *, fallback: bool) -> tuple[Executor, ...]:
    """One executor for each name, with ``model`` where the name says none; what is no name is added to ``faults``.

    With ``fallback`` other models may answer in the place of those that are named.
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


def candidate_contradictions(given: str | None, *, shards: int, others: bool) -> list[Fault]:
    """What is wrong with the option beside the others; ``others``: it is said elsewhere, too, who makes the change."""
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
    """Raises msgspec.ValidationError for a name that is none."""
    if not agent and model is None:
        raise msgspec.ValidationError("no name")
    fields = {"kind": "agent" if agent else "model", "agent": None if agent == ANY_AGENT else agent or None, "model": model}
    return msgspec.convert(fields | {"fallback": fallback and model is not None}, Executor)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit()
