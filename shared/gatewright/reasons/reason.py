"""A reason: a stable code that scripts may match on, its family, and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple, get_args

#: The kind of a reason: a bad document, a refusal by a rule, work that failed, a missing resource.
Family = Literal["bad_input", "refused", "failed", "infrastructure"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

#: The exit code of a command that ends with a reason of the family.
EXIT_CODES: Final[Mapping[Family, int]] = {"bad_input": 2, "refused": 1, "failed": 1, "infrastructure": 3}


class RetryOffer(StrEnum):
    """An addition of a retry line; the value is the option of ``gatewright run``. No other definition exists.

    A retry line is printed (``retry with: gatewright run ...``) or returned (``retry_with``), and people paste it
    without checking it. It therefore follows these rules:

    1. The table of a reason code defines what it offers. A code that is not in a table offers nothing.
    2. A refusal for evasion offers nothing: tests that are lost or weakened, a patched runner, a report that is cut short. The
       option that would permit it would let the same change land.
    3. An unreadable text offers nothing: no path of a malformed patch is allowed.
    4. One violation that offers nothing leaves the whole line out, because the run would be refused again.
    5. A path is offered by its exact name, never by its folder. Caches, sacred paths and names that a person cannot read are
       never offered (``gatewright.view.retry``).
    """

    PATH = "--allow"
    PROTECTED_PATH = "--allow-tests"
    DEPENDENCIES = "--allow-dependencies"
    KIND = "--allow-kind"
    LAND_BRANCH = "--land"
    AGAIN = "--again"
    PROVIDE = "--provide"
    TEST = "--test"
    #: All options that a model proposed for an incomplete request.
    PROPOSAL = "the proposed options"


#: The offer of most reasons.
NOTHING: Final[frozenset[RetryOffer]] = frozenset()


class Reason(NamedTuple):
    """``advice``: one sentence for people, in which ``{run}`` is the run id. ``page``: place in the documentation.

    ``retry``: what a retry line may add to the refused command (``RetryOffer``). ``passing``: the condition ends by itself or
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
