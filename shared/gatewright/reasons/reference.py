"""The page of the documentation that lists every reason code, generated from the table."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.reasons.reason import EXIT_CODES, FAMILIES, Family, Reason, RetryOffer
from gatewright.reasons.registry import REASONS

_BEGINNING = """\
# Reason codes

A reason code is the stable name of a refusal, failure or error, on which scripts can match.

```json
{"code": "path_out_of_scope", "family": "refused"}
```

- Each code belongs to one of four families. The family sets the exit code of the command.
- `error.v1` and `gate_report.v1` contain the family, so that clients can handle codes of newer versions. Treat an unknown code
  without a family as `refused`.
- After some refusals, clients print or return a retry line: the same command with options that open what was refused. The table
  names these options.
- Each code links to the page that explains it.

`python -m gatewright.reasons > docs/reasons.md` generates this page.

| family | exit code | meaning |
|---|---|---|
"""
#: Maximum codes in one row.
_CODES_OF_A_ROW = 12
_FAMILIES: dict[Family, tuple[str, str]] = {
    "bad_input": ("Bad input", "the input is invalid, or names something that does not exist: correct it"),
    "refused": ("Refused", "a policy or a gate refused: change the order, or have the policy changed"),
    "failed": ("Failed", "the work or a check of it did not succeed"),
    "infrastructure": ("Infrastructure", "a required resource is unavailable; the input is not at fault"),
}


def reference() -> str:
    """Return the whole page in Markdown."""
    rows = "".join(f"| `{family}` | {EXIT_CODES[family]} | {_FAMILIES[family][1]} |\n" for family in FAMILIES)
    return _BEGINNING + rows + "".join(line for family in FAMILIES for line in _section(family))


def _section(family: Family) -> Iterator[str]:
    """Yield a heading and a table. Codes with the same page and advice share a row."""
    yield f"\n## {_FAMILIES[family][0]}\n\n| code | advice |\n|---|---|\n"
    rows: dict[tuple[str, str], list[str]] = {}
    for reason in sorted(REASONS.values()):
        if reason.family == family:
            rows.setdefault((reason.page, _advice(reason)), []).append(f"[`{reason.code}`]({reason.page})")
    for (_, advice), codes in rows.items():
        for start in range(0, len(codes), _CODES_OF_A_ROW):
            yield f"| {', '.join(codes[start : start + _CODES_OF_A_ROW])} | {advice} |\n"


def _advice(reason: Reason) -> str:
    again = " You can send it again unchanged." if reason.passing else ""
    retry = f" Retry options: {', '.join(map(_option, sorted(reason.retry)))}." if reason.retry else ""
    return f"{reason.advice.replace('|', '&#124;')}.{again}{retry}"


def _option(offer: RetryOffer) -> str:
    return f"`{offer}`" if offer.startswith("--") else offer.value
