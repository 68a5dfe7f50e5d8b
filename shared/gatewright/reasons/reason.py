"""What a reason is: a stable code that scripts may match on, the family that it belongs to, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, get_args

from gatewright.reasons.retries import RetryOffer

#: What a reason is about: the document, a rule that says no, work that did not come out well, what is needed.
Family = Literal["bad_input", "refused", "failed", "infrastructure"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

#: The exit code of every command that ends with a reason of a family.
EXIT_CODES: Final[Mapping[Family, int]] = {"bad_input": 2, "refused": 1, "failed": 1, "infrastructure": 3}


class Reason(NamedTuple):
    """``advice`` is one sentence for people, in which ``{run}`` is the id of the run; ``page`` is a place in the documentation.

    ``retry`` is what a retry line may add to the refused command (``retries.py``). ``passing``: it passes by itself or once an
    operator has acted, so the same submission may be sent again.
    """

    code: str
    family: Family
    advice: str
    page: str
    retry: frozenset[RetryOffer]
    passing: bool = False


def section(
    family: Family, page: str, advice: Mapping[str, str], *offers: RetryOffer, passing: bool = False
) -> Iterator[Reason]:
    """The reasons of a family that one page of the documentation explains; ``advice`` by code.

    A retry line may add ``offers`` after each of these reasons. A section without offers adds nothing.
    """
    return (Reason(code, family, words, page, frozenset(offers), passing) for code, words in advice.items())
