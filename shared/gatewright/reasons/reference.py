"""The page of the documentation that lists every reason code, made from the table."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.reasons.reason import EXIT_CODES, FAMILIES, Family
from gatewright.reasons.registry import REASONS
from gatewright.reasons.retries import RetryOffer

_BEGINNING = """\
# Reason codes

Every refusal, failure and error has a stable code that scripts may match on. A code belongs to one of four families, and the
family alone gives the exit code of the command. `error.v1` and `gate_report.v1` carry it as `family`, so that a client knows
what a code means that only a newer version has; one that is not in the table and comes without a family is taken as refused.

After some refusals a client prints or returns a retry line: the same command with the options that open exactly what was
refused. The table names those options. A code without them offers nothing, because the change has to be corrected.

This page is made from the table in `gatewright.reasons`: `python -m gatewright.reasons > docs/reasons.md`.

| family | exit code | what it says |
|---|---|---|
"""
_FAMILIES: dict[Family, tuple[str, str]] = {
    "bad_input": (
        "Bad input",
        "what was sent is not valid, or names something that does not exist: correct it",
    ),
    "refused": ("Refused", "a policy or a gate said no: change what was asked for, or have the policy changed"),
    "failed": ("Failed", "the work was done or looked at, and did not come out well"),
    "infrastructure": ("Infrastructure", "something that is needed cannot be had: nothing is wrong with what was sent"),
}


def reference() -> str:
    """The whole page, in Markdown."""
    rows = "".join(f"| `{family}` | {EXIT_CODES[family]} | {_FAMILIES[family][1]} |\n" for family in FAMILIES)
    return _BEGINNING + rows + "".join(line for family in FAMILIES for line in _section(family))


def _section(family: Family) -> Iterator[str]:
    yield f"\n## {_FAMILIES[family][0]}\n\n| code | what to do | more |\n|---|---|---|\n"
    for reason in sorted(REASONS.values()):
        if reason.family == family:
            again = " May be sent again as it is." if reason.passing else ""
            retry = f" A retry line may add: {', '.join(map(_option, sorted(reason.retry)))}." if reason.retry else ""
            page = reason.page.partition("#")[0]
            yield f"| `{reason.code}` | {reason.advice.replace('|', '&#124;')}.{again}{retry} | [{page}]({reason.page}) |\n"


def _option(offer: RetryOffer) -> str:
    return f"`{offer}`" if offer.startswith("--") else offer.value
