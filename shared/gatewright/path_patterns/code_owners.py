"""The owners of a repository's parts: the operator's ``CODEOWNERS``, with a pattern and its owners per line, as on code hosts.

The last line that matches a path applies; one without owners returns the path to the rule's ``domain``. Patterns are those
of gitignore without ``!``. Owners are people of the roster, or ``@group``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatewright.contracts.people.review_votes import OwnedPaths
from gatewright.errors import MalformedError
from gatewright.path_patterns.matcher import PathMatcher

#: Lines with a pattern.
MOST_LINES = 500
_MOST_OWNERS = 20
#: The number of no line: what no line gives to an owner.
UNOWNED = 0


def read_code_owners(text: str) -> tuple[OwnedPaths, ...]:
    """Return the lines with owners. Raises MalformedError (``invalid_input``) with the number of the line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        pattern, owners = words[0], tuple(words[1:])
        if pattern.startswith("!") or "[" in pattern or "\\" in pattern:
            raise MalformedError(f"line {number}: {pattern}: `!`, `[` and `\\` mean nothing in a file of owners")
        if len(owners) > _MOST_OWNERS:
            raise MalformedError(f"line {number}: {len(owners)} owners, {_MOST_OWNERS} are the most")
        found.append(OwnedPaths(line=number, pattern=pattern, owners=owners))
    if len(found) > MOST_LINES:
        raise MalformedError(f"{len(found)} lines, {MOST_LINES} are the most")
    PathMatcher([(each.pattern,) for each in found])  # a pattern that cannot be used is found now, not when a run needs it
    return tuple(found)


def by_line(owned: Sequence[OwnedPaths], paths: Iterable[bytes]) -> dict[int, list[bytes]]:
    """The paths under the line that gives each to its owners, ``UNOWNED`` where none does; by line, paths in their order."""
    matcher = PathMatcher([(each.pattern,) for each in owned])
    found: dict[int, list[bytes]] = {}
    for path in paths:
        last = max(matcher.of(path), default=None)
        line = owned[last].line if last is not None and owned[last].owners else UNOWNED
        found.setdefault(line, []).append(path)
    return dict(sorted(found.items()))
