"""A reason: a stable code that scripts may match on, its family, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, get_args

from gatewright.reasons.retries import RetryOffer

#: The kind of a reason: a bad document, a refusal by a rule, work that failed, a missing resource.
Family = Literal["bad_input", "refused", "failed", "infrastructure"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

#: The exit code of a command that ends with a reason of the family.
EXIT_CODES: Final[Mapping[Family, int]] = {"bad_input": 2, "refused": 1, "failed": 1, "infrastructure": 3}


class Reason(NamedTuple):
    """``advice``: one sentence for people, in which ``{run}`` is the run id. ``page``: place in the documentation.

    ``retry``: what a retry line may add to the refused command (``retries.py``). ``passing``: the condition ends by itself or
    after an operator has acted, so the same submission may be sent again.
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
    """Yield the reasons of a family that one page of the documentation explains.

    Args:
        family: family of all of them.
        page: place in the documentation.
        advice: advice by code.
        offers: what a retry line may add after each of these reasons; nothing by default.
        passing: the same submission may be sent again later.
    """
    return (Reason(code, family, words, page, frozenset(offers), passing) for code, words in advice.items())
