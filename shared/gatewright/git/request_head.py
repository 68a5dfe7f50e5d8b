"""The head of a change request as one change: where it left a baseline, who made its commits, and the tree that it gives there.

A change request is called pull request or merge request by its coding host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.contracts.people.authors import author_line, distinct_authors
from gatewright.contracts.people.identities import identities_of
from gatewright.contracts.vocabulary import MOST_AUTHORS, SourceBranch
from gatewright.errors import MalformedError, PatchError
from gatewright.git.mirror import Mirror
from gatewright.git.process import OutputTooLargeError

#: Maximum commits of a change request.
MOST_COMMITS: Final = 10_000
#: Maximum authors that a fault names.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class HeadChange:
    """The commits from ``base``, where ``head`` left the baseline. ``patch`` is their canonical diff.

    ``authors``: the distinct people who made them, as name and address.
    """

    head: str
    base: str
    commits: int
    authors: tuple[tuple[str, str], ...]
    patch: bytes


async def change_of_head(mirror: Mirror, head: str, baseline: str) -> HeadChange:
    """Return what the commit ``head`` changes since it left ``baseline``, a commit of the mirror.

    1. The repository has the commit, which is fetched without a checkout.
    2. It left the baseline at one commit.
    3. Its commits and their authors can be named.

    Raises:
        GitError: ``ref_not_found``, the repository does not have the commit.
        MalformedError: ``source_unrelated``, ``source_empty``, ``source_too_long``, ``too_many_authors``.
        PatchError: ``patch_too_large``.
    """
    await mirror.ensure(head)  # 1
    bases = await mirror.merge_bases(baseline, head)  # 2
    if len(bases) != 1:
        words = f"commit {head} has {len(bases)} newest commits in common with the baseline {baseline}, and must have one"
        raise MalformedError(words, code="source_unrelated")
    try:
        made = await mirror.authors(bases[0], head, MOST_COMMITS + 1)  # 3
    except OutputTooLargeError as error:
        raise MalformedError(f"the names of the authors of {head} are too long", code="source_too_long") from error
    if not made:
        raise MalformedError(f"the baseline contains commit {head} already", code="source_empty")
    if len(made) > MOST_COMMITS:
        raise MalformedError(f"commit {head} is more than {MOST_COMMITS} commits from the baseline", code="source_too_long")
    authors = distinct_authors(made)
    if len(authors) > MOST_AUTHORS:
        words = f"{len(authors)} people made the commits of {head}, and a run can name {MOST_AUTHORS}"
        raise MalformedError(words, code="too_many_authors")
    return HeadChange(head, bases[0], len(made), authors, await mirror.diff(bases[0], head))


async def moved_fault(mirror: Mirror, source: SourceBranch) -> str:
    """Return as text why the ref of ``source`` is not at its head in the repository now; empty if it is or there is no ref.

    Raises GitError (``repository_unreadable``).
    """
    current = await mirror.current(source.ref) if source.ref is not None else source.head
    if current == source.head:
        return ""
    return f"{source.ref} is at {current or 'nothing'}, and commit {source.head} was to be judged"


async def authors_fault(mirror: Mirror, source: SourceBranch) -> str:
    """Return as text which authors of the commits of ``source`` it does not name, by name and address; empty for none.

    Raises GitError (``object_missing``, ``git_output_too_large``).
    """
    made = await mirror.authors(source.base, source.head, MOST_COMMITS + 1)
    named = identities_of(*source.authors)
    unnamed = sorted(line for line in {author_line(*each) for each in made} if not identities_of(line) <= named)
    if len(made) > MOST_COMMITS:
        return f"more than {MOST_COMMITS} commits lead to {source.head}"
    return f"the authors of the order leave out: {', '.join(map(ascii, unnamed[:_MOST_NAMED]))}" if unnamed else ""


async def source_fault(mirror: Mirror, source: SourceBranch, baseline: str, tree: str) -> str:
    """Return as text why ``tree`` is not ``baseline`` with the change of ``source``; empty if it is.

    1. The head left the baseline where the order states. 2. The order counts its commits and names every author.
    3. The change from there to the head, applied to the baseline, gives the tree.

    Raises GitError (``ref_not_found``): the repository does not have the head.
    """
    try:
        change = await change_of_head(mirror, source.head, baseline)
        if change.base != source.base:  # 1
            return f"commit {source.head} left the baseline at {change.base}, not at {source.base}"
        unnamed = sorted({author_line(*each) for each in change.authors}.difference(source.authors))
        if unnamed or change.commits != source.commits:  # 2
            named = f", made also by {', '.join(map(ascii, unnamed[:_MOST_NAMED]))}" if unnamed else ""
            return f"{change.commits} commits lead to {source.head}{named}"
        result = await mirror.apply(baseline, change.patch)  # 3
    except (PatchError, MalformedError) as error:
        return f"the change of commit {source.head} cannot be made on the baseline: {error.message}"
    return "" if result == tree else f"the change is not that of commit {source.head}, which gives tree {result}"
