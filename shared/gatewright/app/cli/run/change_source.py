"""Where the change of ``gatewright run`` comes from: commands, files, standard input, or commits that exist already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.user_git import user_checkout
from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.people.identities import person_key
from gatewright.contracts.vocabulary import MOST_AUTHORS, Executor, ExecutorName, Person, SourceBranch
from gatewright.errors import Fault, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.host.branch_change import branch_change
from gatewright.order_form.run_options import RunOptions, row

PATCH = EXECUTOR_KINDS["patch"].artifact
#: The name that stands for standard input.
STDIN = "-"
#: The first attempt, and the most retries that a contract takes.
_MOST_ATTEMPTS = 1 + int(row("max_retries").bounds.most or 0)
#: How often an agent or a model is asked, where the user does not say.
_ASKED = 3


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
