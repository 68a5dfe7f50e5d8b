"""The tests of one file: what each of them checks, and what stands beside them that decides which are run."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Helpers that call helpers, followed so far.
_DEPTH = 4


@dataclass
class Body:
    """A function: ``checks`` that can fail, ``steps`` that do anything, and the names that it ``calls``."""

    name: str
    line: int
    text: bytes = b""
    checks: int = 0
    steps: int = 0
    skipped: bool = False
    #: For how many rows of parameters it runs, as far as they are written there.
    rows: int = 1
    calls: list[str] = field(default_factory=list)

    @property
    def leaf(self) -> str:
        """The name without what encloses it."""
        return self.name.rpartition("::")[2]


@dataclass
class FileTests:
    """``cases`` by qualified name; ``helpers`` are the other functions; ``hooks`` the text of what decides which tests run,
    with its line; ``examples`` the number of doctests by the name of what they document."""

    cases: dict[str, Body] = field(default_factory=dict)
    helpers: dict[str, Body] = field(default_factory=dict)
    hooks: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def settle(self) -> None:
        """Count what helpers of this file check for the tests that call them."""
        known: dict[str, int] = {}
        for _ in range(_DEPTH):
            known = {name: body.checks + _count_calls(body, known) for name, body in self.helpers.items()}
        for case in self.cases.values():
            case.checks += _count_calls(case, known)


def _count_calls(body: Body, known: dict[str, int]) -> int:
    return sum(min(known.get(name, 0), 1000) for name in body.calls)
