"""The command to retry after a refusal, with the options that allow exactly the refused paths.

The table of reasons decides which refusals may offer options (``RetryOffer``). This module maps a violation to
an option, and excludes paths that must never be offered.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from gatewright.contracts import GateReport
from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import ChangeKind
from gatewright.ecosystems.caches import is_cache
from gatewright.errors import ScopeError
from gatewright.order_form.words import flags_without_value
from gatewright.reasons import RetryOffer, offers_for
from gatewright.scope import check_allowed_path
from gatewright.secret_names import IN_REPOSITORIES

if TYPE_CHECKING:
    from gatewright.path_patterns.matcher import PathMatcher

#: Option that allows a violation, by the broken rule. No option allows any other rule.
_OFFER_BY_RULE: Final = {
    "allowed_paths": RetryOffer.PATH,
    "protected_paths.protected": RetryOffer.PROTECTED_PATH,
    "protected_paths.runner": RetryOffer.PROTECTED_PATH,
    "protected_paths.dependencies": RetryOffer.DEPENDENCIES,
}
_KIND_RULE: Final = "change_kinds."
_KIND_IN_DETAIL = re.compile(r"opened only by scope\.allow: ([a-z_]+)$")  # noqa: TID251 - linear: the words before it cannot stand in the repetition
#: Reports list at most this many violations, so a report of this length may be incomplete.
_MOST_LISTED: Final = 100
#: With more paths the line is too long to read. Offering their folders would allow more than was refused.
_MOST_PATHS: Final = 40
#: Maximum characters of a path. A report cuts longer texts, and a cut path names another file.
_LONGEST_PATH: Final = 500
_RUN: Final = ("gatewright", "run")
#: Separates options from arguments that look like options.
_END_OF_OPTIONS: Final = "--"


class _Opening(NamedTuple):
    """An option with its value; the value of a flag is ``""``."""

    option: RetryOffer
    value: str = ""


def retry_options(report: GateReport | None) -> tuple[str, ...]:
    """Return the options that allow everything that this report refused, to add to the same command.

    The result is empty if a violation cannot be allowed by an option, or must not be.
    """
    if report is None or report.verdict == "PASS" or len(report.violations) >= _MOST_LISTED:
        return ()
    openings = [_opening(violation, report.run_id) for violation in report.violations]
    pairs = list(dict.fromkeys(opening for opening in openings if opening is not None))
    if not openings or None in openings or len({pair.value for pair in pairs}) > _MOST_PATHS:
        return ()
    # A path of --allow-tests needs no --allow.
    opened = {pair.value for pair in pairs if pair.option is RetryOffer.PROTECTED_PATH}
    pairs = [pair for pair in pairs if pair.option is not RetryOffer.PATH or pair.value not in opened]
    order = list(dict.fromkeys(pair.option for pair in pairs))
    pairs.sort(key=lambda pair: order.index(pair.option))
    return tuple(word for option, value in pairs for word in (str(option), value) if word)


def retry_line(command: Sequence[str], options: Iterable[str]) -> str:
    """Format the command with ``options`` as one printable line that a shell parses back to exactly these words.

    ``--again`` needs no other word of the command.
    """
    options = tuple(options)
    words = [*_RUN] if RetryOffer.AGAIN in options else [*command]
    at = words.index(_END_OF_OPTIONS) if _END_OF_OPTIONS in words else len(words)
    words[at:at] = _join_options(options)
    return " ".join(map(_quote_word, words))


def retry_label(options: Sequence[str]) -> str:
    """Return the label of the retry command, which differs where the options widen the scope."""
    return "To allow it" if all(each.startswith("--allow") for each in options if each.startswith("--")) else "Retry with"


def _opening(violation: Violation, run_id: str) -> _Opening | None:
    """Return the option that allows one violation; None if there is none, or if it must not be offered."""
    offers = offers_for(violation.code)
    if RetryOffer.AGAIN in offers:
        return _Opening(RetryOffer.AGAIN, run_id)
    if RetryOffer.LAND_BRANCH in offers:
        return _Opening(RetryOffer.LAND_BRANCH, "branch")
    if RetryOffer.KIND in offers and (kind := _kind(violation)):
        return _Opening(RetryOffer.KIND, kind)
    option = _OFFER_BY_RULE.get(violation.rule)
    if option is None or option not in offers or not may_be_offered(violation.path or ""):
        return None
    return _Opening(option, "" if option is RetryOffer.DEPENDENCIES else violation.path or "")


def _kind(violation: Violation) -> str:
    found = _KIND_IN_DETAIL.search(violation.detail)
    by_rule = violation.rule.removeprefix(_KIND_RULE) if violation.rule.startswith(_KIND_RULE) else ""
    kind = by_rule or (found[1] if found is not None else "")
    return kind if kind in get_args(ChangeKind) else ""


def may_be_offered(path: str) -> bool:
    """Return whether a retry line may contain ``path``, as written in a report.

    1. It is a path that a contract may allow, and its name was neither cut nor escaped.
    2. The command line accepts it unchanged.
    3. It is not a cache of a tool.
    4. Files of that name do not hold credentials.
    """
    try:
        exact = check_allowed_path(path) == path and path.isprintable() and len(path) <= _LONGEST_PATH  # 1
    except ScopeError:
        return False
    if not exact or path.startswith(("./", "~/")):  # 2
        return False
    return not is_cache(path) and not _sacred_names().of(path.encode())  # 3, 4


@cache
def _sacred_names() -> PathMatcher:
    # Imported late: most runs land, and do not need it.
    from gatewright.path_patterns.matcher import PathMatcher

    return PathMatcher([IN_REPOSITORIES])


def _join_options(options: Iterable[str]) -> Iterator[str]:
    """Yield the options. A value that begins with a dash is joined to its option, since it would be parsed as an option."""
    alone, waiting = flags_without_value(), iter(options)
    for option in waiting:
        if option in alone or not option.startswith("--"):
            yield option
            continue
        value = next(waiting, None)
        if value is not None and value.startswith("-") and value != "-":
            yield f"{option}={value}"
        else:
            yield from (option,) if value is None else (option, value)


def _quote_word(word: str) -> str:
    """Quote ``word`` for a shell. Unprintable characters become escapes that bash, zsh and ksh decode."""
    if not word.isprintable():
        return "$'" + "".join(map(_escape_shell_char, word)) + "'"
    # zsh expands a word that begins with = to the path of a program.
    return "'='" + shlex.quote(word[1:]) if word.startswith("=") else shlex.quote(word)


def _escape_shell_char(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
